#include <locale.h>
#include <stdio.h>
#include <wchar.h>

int main(void) {
	wchar_t line[100];
	setlocale(LC_ALL, "");
	if (!fgetws(line, 100, stdin))
		return 1;
	line[wcslen(line) - 1] = L'\0';
	printf("%ls %zu\n", line, wcslen(line));
}
