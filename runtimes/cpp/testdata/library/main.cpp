#include <bits/stdc++.h>

using namespace std;

struct Shape {
	virtual ~Shape() = default;
	virtual double area() const { throw logic_error("no area"); }
};

struct Circle : Shape {
	double area() const override { return M_PI; }
};

struct Said {
	string what;
	~Said() { cout << what << endl; }
};

static Said global{"global gone"};
static thread_local Said local{"thread gone"};

template <typename T> T once() {
	static T value{};
	return ++value;
}

int main() {
	try {
		Shape().area();
	} catch (const exception &e) {
		cout << e.what() << '\n';
	}
	auto later = async(launch::async, []() -> int { throw out_of_range("from a thread"); });
	try {
		later.get();
	} catch (const out_of_range &e) {
		cout << e.what() << '\n';
	}

	thread([] { local.what += '!'; }).join();
	once_flag flag;
	for (int i = 0; i < 2; i++) call_once(flag, [] { cout << "once" << once<int>() << once<int>() << '\n'; });

	unique_ptr<Shape> shape = make_unique<Circle>();
	cout << fixed << setprecision(3) << shape->area() << ' ' << (dynamic_cast<Circle *>(shape.get()) != nullptr) << ' ' << tgamma(4.5) << '\n';

	cout.imbue(locale(""));
	cout << locale("").name() << ' ' << 12345 << '\n';
	cout << regex_replace("a-b-c", regex("-"), "+") << ' ' << filesystem::exists("main.cpp") << '\n';
	try {
		locale("xx_XX.UTF-8");
	} catch (const runtime_error &) {
		cout << "no such locale" << endl;
	}
}
