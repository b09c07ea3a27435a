/* What preload.js needs and Node has no function for: a message with a descriptor, limits, a standard
 * input in the place of another, and fresh randomness. Loaded once, before the program is known.
 *
 * Of Node-API it uses few functions, which node has in itself, so no headers are needed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

typedef void *env_t, *value_t, *info_t;
typedef value_t (*function_t)(env_t, info_t);
extern int napi_add_env_cleanup_hook(env_t, void (*)(void *), void *);
extern int napi_close_handle_scope(env_t, void *);
extern int napi_create_function(env_t, const char *, size_t, function_t, void *, value_t *);
extern int napi_create_reference(env_t, value_t, uint32_t, void **);
extern int napi_create_uint32(env_t, uint32_t, value_t *);
extern int napi_create_string_utf8(env_t, const char *, size_t, value_t *);
extern int napi_get_cb_info(env_t, info_t, size_t *, value_t *, value_t *, void **);
extern int napi_get_reference_value(env_t, void *, value_t *);
extern int napi_get_undefined(env_t, value_t *);
extern int napi_get_value_double(env_t, value_t, double *);
extern int napi_get_value_string_utf8(env_t, value_t, char *, size_t, size_t *);
extern int napi_open_handle_scope(env_t, void **);
extern int napi_set_named_property(env_t, value_t, const char *, value_t);
extern int napi_throw_error(env_t, const char *, const char *);
extern int RAND_poll(void);

/* Node-API calls no function of a program that has ended. V8 does where it is allowed to: isolate.h, function.h. A value of Node-API is V8's. */
extern void *current_isolate(void) __asm__("_ZN2v87Isolate10GetCurrentEv");
extern value_t current_context(void *isolate) __asm__("_ZN2v87Isolate17GetCurrentContextEv");
extern void allow_calls(void *scope, void *isolate) __asm__("_ZN2v87Isolate29AllowJavascriptExecutionScopeC1EPS0_");
extern void allow_calls_end(void *scope) __asm__("_ZN2v87Isolate29AllowJavascriptExecutionScopeD1Ev");
extern value_t call(value_t function, value_t context, value_t receiver, int argc, value_t *argv) __asm__("_ZN2v88Function4CallENS_5LocalINS_7ContextEEENS1_INS_5ValueEEEiPS5_");

#define MOST (64 << 10) /* bytes of a message, the agent's maxHandover */

static int control = -1, received = -1;
static char text[MOST];

static value_t fail(env_t env, const char *what) {
    napi_throw_error(env, NULL, what);
    return NULL;
}

/* arguments reads n of them, and reports whether there are as many. */
static bool arguments(env_t env, info_t info, size_t n, value_t *into) {
    size_t given = n;
    return napi_get_cb_info(env, info, &given, into, NULL, NULL) == 0 && given == n;
}

/* open(descriptor) says which the socket is. */
static value_t open_control(env_t env, info_t info) {
    value_t given;
    double number;
    if (!arguments(env, info, 1, &given) || napi_get_value_double(env, given, &number) != 0) return fail(env, "open: no descriptor");
    control = (int)number;
    return NULL;
}

/* say(text) sends a message. */
static value_t say(env_t env, info_t info) {
    value_t given;
    size_t length;
    if (!arguments(env, info, 1, &given) || napi_get_value_string_utf8(env, given, text, sizeof text, &length) != 0) return fail(env, "say: no text");
    if (send(control, text, length, MSG_NOSIGNAL) < 0) return fail(env, strerror(errno));
    return NULL;
}

/* hear() waits for a message, and returns it; what comes with it is kept for becomeStdin. */
static value_t hear(env_t env, info_t info) {
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } rights;
    struct iovec into = {text, sizeof text};
    struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
    ssize_t length;
    value_t said;
    (void)info;
    do length = recvmsg(control, &message, MSG_CMSG_CLOEXEC); while (length < 0 && errno == EINTR);
    if (length < 0) return fail(env, strerror(errno));
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) memcpy(&received, CMSG_DATA(c), sizeof received);
    if (napi_create_string_utf8(env, text, (size_t)length, &said) != 0) return fail(env, "hear: no text");
    return said;
}

/* limit(name, value) sets a hard and soft limit, by getrlimit's name. */
static value_t limit(env_t env, info_t info) {
    static const struct { const char *name; int resource; } names[] = {
        {"AS", RLIMIT_AS}, {"CORE", RLIMIT_CORE}, {"CPU", RLIMIT_CPU}, {"FSIZE", RLIMIT_FSIZE}, {"NOFILE", RLIMIT_NOFILE}, {"NPROC", RLIMIT_NPROC}, {"STACK", RLIMIT_STACK},
    };
    value_t given[2];
    char name[16];
    size_t length;
    double value;
    if (!arguments(env, info, 2, given) || napi_get_value_string_utf8(env, given[0], name, sizeof name, &length) != 0 || napi_get_value_double(env, given[1], &value) != 0)
        return fail(env, "limit: no name and value");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0) {
            struct rlimit both = {(rlim_t)value, (rlim_t)value};
            return setrlimit(names[i].resource, &both) != 0 ? fail(env, strerror(errno)) : NULL;
        }
    return fail(env, "limit: there is no such limit");
}

/* becomeStdin() puts what hear got in the place of the standard input, if it got anything. */
static value_t become_stdin(env_t env, info_t info) {
    (void)info;
    if (received < 0) return NULL;
    if (dup3(received, STDIN_FILENO, O_CLOEXEC) < 0) /* as Node has it */ return fail(env, strerror(errno));
    close(received);
    return NULL;
}

/* reseed() has OpenSSL's generators begin anew, from the kernel's. */
static value_t reseed(env_t env, info_t info) {
    (void)info;
    return RAND_poll() != 1 ? fail(env, "no fresh randomness") : NULL;
}

/* seed() is a number from 1 to 2^31-1. Node's own would take an id of async_hooks, and load crypto. */
static value_t seed(env_t env, info_t info) {
    uint32_t number;
    value_t made;
    (void)info;
    if (getrandom(&number, sizeof number, 0) != sizeof number) return fail(env, "no fresh randomness");
    number >>= 1;
    return napi_create_uint32(env, number ? number : 1, &made) != 0 ? fail(env, "seed: no number") : made;
}

static struct { env_t env; void *last; } at_end;

/* end calls what atEnd was given. */
static void end(void *unused) {
    void *handles, *isolate = current_isolate();
    uint64_t scope[8]; /* it takes three */
    value_t last, undefined;
    (void)unused;
    if (napi_open_handle_scope(at_end.env, &handles) != 0) return;
    if (napi_get_reference_value(at_end.env, at_end.last, &last) == 0 && last != NULL && napi_get_undefined(at_end.env, &undefined) == 0) {
        allow_calls(scope, isolate);
        call(last, current_context(isolate), undefined, 0, NULL);
        allow_calls_end(scope);
    }
    napi_close_handle_scope(at_end.env, handles);
}

/* atEnd(function) has it called once the program has ended, by itself, and what it has is about to be taken apart. */
static value_t call_at_end(env_t env, info_t info) {
    value_t given;
    at_end.env = env;
    if (!arguments(env, info, 1, &given) || napi_create_reference(env, given, 1, &at_end.last) != 0 || napi_add_env_cleanup_hook(env, end, NULL) != 0)
        return fail(env, "atEnd: no function");
    return NULL;
}

/* done() closes the socket. */
static value_t done(env_t env, info_t info) {
    (void)env, (void)info;
    close(control);
    return NULL;
}

value_t napi_register_module_v1(env_t env, value_t exports) {
    static const struct { const char *name; function_t function; } all[] = {
        {"open", open_control}, {"say", say}, {"hear", hear}, {"limit", limit}, {"becomeStdin", become_stdin}, {"reseed", reseed}, {"seed", seed}, {"atEnd", call_at_end}, {"done", done},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        value_t made;
        if (napi_create_function(env, all[i].name, strlen(all[i].name), all[i].function, NULL, &made) != 0 || napi_set_named_property(env, exports, all[i].name, made) != 0)
            return fail(env, "no function could be made");
    }
    return exports;
}
