int main(void) {
	for (;;) {
	}
}
