/* Rscript without its two shells, in one process, which can be started before its program is known.
 *
 * Given a file and arguments it is what `Rscript --no-save --no-restore --no-init-file --no-environ FILE ARG…`
 * becomes. With GLOVEBOX_PRELOAD naming a socket it starts R, attaches R's packages, says "prepared", waits to be
 * told its program, and has R read that in the place of an empty file. So what a program sees of errors, exit codes,
 * arguments and values that are printed is R's own.
 *
 * Where a program could tell the difference it is refused, and the agent starts another: when its environment has
 * another value for something that was read already. What remains is listed in runtimes/README.md. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <Rinternals.h>

#include <R_ext/RStartup.h>
#include <Rembedded.h>
#include <Rinterface.h>

/* What R has, and its headers don't name. */
extern void run_Rmainloop(void);

#define HOME "/usr/lib/R"
#define MOST (64 << 10) /* bytes of a message, the agent's maxHandover */
#define NOTED 1024

static int control = -1;

/* What was looked for in the environment until there is a program. */
static char *noted[NOTED];
static size_t notes;
static bool noting;

static void note(const char *name) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* what draws has threads */
    size_t i = 0;
    if (!noting) return;
    pthread_mutex_lock(&lock);
    while (i < notes && i < NOTED && strcmp(noted[i], name) != 0) i++;
    if (i == notes || i == NOTED) {
        if (notes < NOTED && !(noted[notes] = strdup(name))) abort();
        notes++;
    }
    pthread_mutex_unlock(&lock);
}

/* getenv is the C library's for R and all that it loads, and notes the name. */
char *getenv(const char *name) {
    size_t length = strlen(name);
    note(name);
    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, name, length) == 0 && (*e)[length] == '=') return *e + length + 1;
    return NULL;
}

/* What libraries in C read by themselves, and LN_S, which R sets whatever it was. */
static const char *const read_in_c[] = {"GCONV_", "GLIBC_", "GOMP_", "LANG", "LC_", "LD_", "LN_S", "LOCPATH", "MALLOC_", "NLSPATH", "OMP_", "OUTPUT_CHARSET", "TZ"};

static bool was_read(const char *name) {
    for (size_t i = 0; i < notes && i < NOTED; i++)
        if (strcmp(noted[i], name) == 0) return true;
    for (size_t i = 0; i < sizeof read_in_c / sizeof *read_in_c; i++)
        if (strncmp(name, read_in_c[i], strlen(read_in_c[i])) == 0) return true;
    return notes > NOTED;
}

static void say(const char *text) {
    if (send(control, text, strlen(text), MSG_NOSIGNAL) < 0) _exit(1);
}

static _Noreturn void refuse(const char *why) {
    say(why);
    _exit(0); /* the agent starts another */
}

static const char *value_or(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

/* set_environment sets what Rscript and R's shell script would, with etc/ldpaths. */
static void set_environment(void) {
    static const char *const always[][2] = {
        {"R_HOME", HOME}, {"R_SHARE_DIR", "/usr/share/R/share"}, {"R_INCLUDE_DIR", "/usr/share/R/include"}, {"R_DOC_DIR", "/usr/share/R/doc"},
        {"SED", "/bin/sed"}, {"R_ENVIRON", ""}, {"R_ENVIRON_USER", ""}, {"R_PROFILE_USER", ""},
    };
    const char *packages = getenv("R_SCRIPT_DEFAULT_PACKAGES"), *theirs = value_or("LD_LIBRARY_PATH", ""), *java;
    char server[4096], path[16384];
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        setenv(always[i][0], always[i][1], 1);
        note(always[i][0]);
    }
    note("R_ARCH");
    setenv("R_ARCH", "", 0);
    if (packages) setenv("R_DEFAULT_PACKAGES", packages, 1);
    snprintf(server, sizeof server, "%s/lib/server", value_or("JAVA_HOME", "/usr/lib/jvm/default-java"));
    java = value_or("R_JAVA_LD_LIBRARY_PATH", server);
    snprintf(path, sizeof path, "%s%s%s%s%s", value_or("R_LD_LIBRARY_PATH", HOME "/lib:/usr/lib/" MULTIARCH), *java ? ":" : "", java, *theirs ? ":" : "", theirs);
    setenv("LD_LIBRARY_PATH", path, 1);
}

/* A message is the agent's JSON, with no character that is escaped: what has one is refused, so this is no parser of JSON. */
static char *at;

static void expect(const char *text) {
    size_t length = strlen(text);
    if (strncmp(at, text, length) != 0) refuse("its message is none that is known here");
    at += length;
}

/* string reads one, and ends it by a NUL. */
static char *string(void) {
    char *begin;
    expect("\"");
    begin = at;
    at = strchr(at, '"');
    if (!at) refuse("its message ends in a string");
    *at++ = '\0';
    return begin;
}

/* another reports whether there is one more before the end of a list. */
static bool another(char end) {
    if (*at == end) {
        at++;
        return false;
    }
    if (*at == ',') at++;
    return true;
}

static void set_limit(const char *name, rlim_t value) {
    static const struct { const char *name; int resource; } names[] = {
        {"CORE", RLIMIT_CORE}, {"CPU", RLIMIT_CPU}, {"FSIZE", RLIMIT_FSIZE}, {"NOFILE", RLIMIT_NOFILE}, {"NPROC", RLIMIT_NPROC},
    };
    struct rlimit both = {value, value}, here;
    if (strcmp(name, "STACK") == 0) { /* R has measured its stack */
        if (getrlimit(RLIMIT_STACK, &here) != 0 || here.rlim_cur != value) refuse("it has another stack");
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0) {
            if (setrlimit(names[i].resource, &both) != 0) refuse(strerror(errno));
            return;
        }
    refuse("it has a limit that is not known here");
}

/* take_environment makes the environment the program's, in the place of that which this process was given. */
static void take_environment(char **given) {
    expect(",\"env\":{");
    while (another('}')) {
        char *name = string(), *value;
        size_t length = strlen(name), i = 0;
        expect(":");
        value = string();
        while (given[i] && (strncmp(given[i], name, length) != 0 || given[i][length] != '=')) i++;
        bool same = given[i] && strcmp(given[i] + length + 1, value) == 0;
        if (given[i]) given[i] = ""; /* it stays */
        if (same) continue;
        if (was_read(name)) refuse("it has another value for what was read already");
        if (setenv(name, value, 1) != 0) refuse(strerror(errno));
    }
    for (size_t i = 0; given[i]; i++) {
        char *equals = strchr(given[i], '=');
        if (!equals) continue;
        *equals = '\0';
        if (was_read(given[i])) refuse("it lacks what was read already");
        unsetenv(given[i]);
    }
}

/* script is the descriptor by which R reads its program: of the empty file that it was started with. */
static int script(void) {
    char path[64], target[sizeof "/dev/null"];
    for (int fd = 3; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target);
        if (length == sizeof "/dev/null" - 1 && memcmp(target, "/dev/null", (size_t)length) == 0) return fd;
    }
    refuse("R has no program open");
}

/* say_prepared sends that, and the files that are mapped: the agent holds them, or the sandbox's kernel would do away
 * with its mappings of each at the end. */
static void say_prepared(void) {
    static char text[MOST / 2] = "prepared\n";
    char line[4096], *path;
    size_t length = strlen(text);
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        if ((path = strchr(line, '/')) && !strstr(text, path) && length + strlen(path) < sizeof text) length += (size_t)sprintf(text + length, "%s", path);
    if (maps) fclose(maps);
    say(text);
}

/* hear waits for a message, and returns a descriptor that came with it, or -1. */
static int hear(char *into, size_t room) {
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } rights;
    struct iovec where = {into, room - 1};
    struct msghdr message = {.msg_iov = &where, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
    int received = -1;
    ssize_t length;
    do length = recvmsg(control, &message, MSG_CMSG_CLOEXEC); while (length < 0 && errno == EINTR);
    if (length <= 0) _exit(length < 0); /* there is no program */
    into[length] = '\0';
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) memcpy(&received, CMSG_DATA(c), sizeof received);
    return received;
}

/* call evaluates a call of R's, or says why it failed. */
static void call(SEXP what, SEXP environment) {
    int failed = 0;
    R_tryEvalSilent(PROTECT(what), environment, &failed);
    UNPROTECT(1);
    if (failed) refuse(R_curErrorBuf());
}

/* drop_fonts drops what pango has loaded, and its thread, which no process that a program forks would have: it would wait
 * for that for ever. What fontconfig has read stays. */
static void drop_fonts(void) {
    void *pango = dlopen("libpangocairo-1.0.so.0", RTLD_LAZY | RTLD_NOLOAD);
    void (*set_default)(void *) = pango ? (void (*)(void *))dlsym(pango, "pango_cairo_font_map_set_default") : NULL;
    if (!set_default) refuse("it has drawn without pango");
    set_default(NULL);
    for (int tries = 0, threads = 2; threads > 1; tries++) {
        DIR *tasks = opendir("/proc/self/task");
        if (!tasks || tries == 5000) refuse("it has a thread");
        threads = -2; /* . and .. */
        while (readdir(tasks)) threads++;
        closedir(tasks);
        usleep(1000);
    }
}

/* prepare executes preload.R, and returns its environment. */
static SEXP prepare(const char *imports) {
    SEXP environment = R_NewEnv(R_GlobalEnv, 0, 0);
    R_PreserveObject(environment);
    defineVar(install("imports"), PROTECT(mkString(imports)), environment);
    call(lang3(install("sys.source"), PROTECT(mkString("/usr/local/lib/glovebox/preload.R")), environment), R_BaseEnv);
    UNPROTECT(2);
    drop_fonts();
    return environment;
}

/* become_program waits for the program, and has R's process be it. */
static void become_program(SEXP prepared, char **given, const char *file, char **arguments, int count) {
    static char message[MOST + 1];
    int reads = script(), input, program;
    unsigned seed;
    noting = false;
    rmdir(R_TempDir); /* nothing is there while it waits */
    say_prepared();
    input = hear(message, sizeof message);
    if (strchr(message, '\\')) refuse("it has a character that JSON escapes");
    at = message;
    expect("{\"args\":[");
    for (bool first = true; another(']'); first = false) {
        if (first) arguments[count++] = "--args";
        arguments[count++] = string();
    }
    R_set_command_line_arguments(count, arguments);
    take_environment(given);
    expect(",\"limits\":{");
    while (another('}')) {
        char *name = string();
        expect(":");
        set_limit(name, strtoull(at, &at, 10));
    }
    program = open(file, O_RDONLY | O_CLOEXEC);
    if (program < 0) refuse("its file can't be read");
    if (dup3(program, reads, fcntl(reads, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0) < 0 || (input >= 0 && dup2(input, STDIN_FILENO) < 0)) refuse(strerror(errno));
    close(program);
    if (input >= 0) close(input);
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) refuse("no fresh randomness");
    srand(seed); /* names of temporary files; R's own generator is seeded as it is first used */
    call(lang1(install("become")), prepared);
    say("yes");
    close(control);
}

/* is_socket reports whether the number is that of a socket as the agent makes it. */
static bool is_socket(const char *number) {
    int type = 0;
    socklen_t size = sizeof type;
    return getsockopt(atoi(number), SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

int main(int argc, char **argv) {
    static char *const begin[] = {HOME "/bin/exec/R", "--no-echo", "--no-restore", "--no-save", "--no-restore", "--no-init-file", "--no-environ"};
    const size_t options = sizeof begin / sizeof *begin;
    const char *socket = getenv("GLOVEBOX_PRELOAD"), *imports = getenv("GLOVEBOX_PRELOAD_IMPORTS");
    char **arguments, **given = NULL, option[8192];
    size_t count = options, variables = 0;
    if (argc < 2 || snprintf(option, sizeof option, "--file=%s", argv[1]) >= (int)sizeof option) {
        fputs("usage: Rscript FILE [ARGUMENT…]\n", stderr);
        return 2;
    }
    if (socket && !is_socket(socket)) socket = NULL; /* the program's own variable */
    prctl(PR_SET_NAME, "R");
    arguments = calloc(options + (size_t)argc + MOST, sizeof *arguments); /* a message has no more */
    if (!arguments) return 2;
    memcpy(arguments, begin, sizeof begin);
    arguments[count++] = option;
    if (socket) {
        control = atoi(socket);
        fcntl(control, F_SETFD, FD_CLOEXEC);
        imports = strdup(imports ? imports : "");
        unsetenv("GLOVEBOX_PRELOAD");
        unsetenv("GLOVEBOX_PRELOAD_IMPORTS");
        while (environ[variables]) variables++;
        given = calloc(variables + 1, sizeof *given);
        for (size_t i = 0; given && i < variables; i++) given[i] = strdup(environ[i]);
        noting = true;
        arguments[options] = "--file=/dev/null";
    } else if (argc > 2) {
        arguments[count++] = "--args";
        for (int i = 2; i < argc; i++) arguments[count++] = argv[i];
    }
    set_environment();
    Rf_initialize_R((int)count, arguments);
    setup_Rmainloop();
    if (socket) {
        memcpy(arguments, begin, sizeof begin); /* R has moved them */
        arguments[options] = option;
        become_program(prepare(imports), given, argv[1], arguments, (int)count);
    }
    run_Rmainloop();
    return 0;
}
