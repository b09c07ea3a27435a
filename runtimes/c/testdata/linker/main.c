// Options that meet the linker are added to the runtime's own command, as Judge0's users add theirs.
#include <stdio.h>
#include <stdlib.h>

static const char *const options[] = {
    "", "-fuse-ld=bfd", "-flto", "-flto -fno-use-linker-plugin", "-static", "-static -flto", "-static-pie", "-no-pie",
    "-fsanitize=address", "-fsanitize=undefined", "-fopenmp", "--coverage", "-g",
};

int main(void) {
    FILE *f = fopen("/tmp/other.c", "w");
    fputs("#include <stdio.h>\n"
          "__attribute__((constructor)) static void begin(void) { printf(\"begin \"); }\n"
          "__attribute__((destructor)) static void end(void) { puts(\"end\"); }\n"
          "int main(void) { printf(\"main \"); }\n", f);
    fclose(f);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char command[256];
        snprintf(command, sizeof command, "cd /tmp && gcc -O2 -fuse-ld=gold -fno-canonical-system-headers -o other other.c -lm %s && ./other", options[i]);
        printf("[%s] ", options[i]);
        fflush(stdout);
        if (system(command) != 0) puts("failed");
    }
}
