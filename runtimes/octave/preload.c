/* What glovebox_wait.m needs and Octave has no function for: a message with a descriptor, limits, and a standard input in
 * the place of another. Of what Octave offers functions in C it uses few, so no headers are needed. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct array array_t;
extern char *mxArrayToString(const array_t *);
extern array_t *mxCreateString(const char *);
extern double mxGetScalar(const array_t *);
extern _Noreturn void mexErrMsgTxt(const char *);

#define MOST (64 << 10) /* bytes of a message, the agent's maxHandover */

static int control = -1, received = -1;

static void say(const char *text) {
    if (send(control, text, strlen(text), MSG_NOSIGNAL) < 0) _exit(1);
}

/* hear waits for a message; what comes with it is kept. */
static const char *hear(void) {
    static char text[MOST + 1];
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } rights;
    struct iovec into = {text, MOST};
    struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
    ssize_t length;
    do length = recvmsg(control, &message, MSG_CMSG_CLOEXEC); while (length < 0 && errno == EINTR);
    if (length <= 0) _exit(length < 0); /* there is no program */
    text[length] = '\0';
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) memcpy(&received, CMSG_DATA(c), sizeof received);
    return text;
}

/* limit sets a hard and soft limit, by getrlimit's name. */
static void limit(const char *name, double value) {
    static const struct { const char *name; int resource; } names[] = {
        {"CORE", RLIMIT_CORE}, {"CPU", RLIMIT_CPU}, {"FSIZE", RLIMIT_FSIZE}, {"NOFILE", RLIMIT_NOFILE}, {"NPROC", RLIMIT_NPROC}, {"STACK", RLIMIT_STACK},
    };
    rlim_t most = value >= 0x1p64 ? RLIM_INFINITY : (rlim_t)value;
    struct rlimit both = {most, most};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0) {
            if (setrlimit(names[i].resource, &both) != 0) mexErrMsgTxt(strerror(errno));
            return;
        }
    mexErrMsgTxt("there is no such limit");
}

/* become gives the process its standard input, says so, and closes the socket. */
static void become(void) {
    if (received >= 0 && dup2(received, STDIN_FILENO) < 0) mexErrMsgTxt(strerror(errno));
    if (received >= 0) close(received);
    say("yes");
    close(control);
    control = received = -1;
}

/* glovebox_preload (what, …) does it. */
void mexFunction(int results, array_t *result[], int count, const array_t *given[]) {
    const char *what = count > 0 ? mxArrayToString(given[0]) : "";
    (void)results;
    if (strcmp(what, "open") == 0 && count == 2) control = (int)mxGetScalar(given[1]);
    else if (strcmp(what, "say") == 0 && count == 2) say(mxArrayToString(given[1]));
    else if (strcmp(what, "hear") == 0) result[0] = mxCreateString(hear());
    else if (strcmp(what, "limit") == 0 && count == 3) limit(mxArrayToString(given[1]), mxGetScalar(given[2]));
    else if (strcmp(what, "become") == 0) become();
    else if (strcmp(what, "exit") == 0) _exit(0);
    else mexErrMsgTxt("glovebox_preload: what is that?");
}
