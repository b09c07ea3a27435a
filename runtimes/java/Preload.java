import java.io.File;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Is the agent's end of a compiler that waits: runtimes/README.md says what crosses the socket. */
final class Preload {
    private static final int MOST = 64 << 10; // bytes of a message, the agent's maxHandover
    private static final int MOST_TOLD = 32 << 10; // bytes of the files' names
    private static final Map<String, Integer> LIMITS = Map.of("CPU", 0, "FSIZE", 1, "CORE", 4, "NPROC", 6, "NOFILE", 7);

    // The agent's JSON, with no character that has to be escaped in the arguments. What is in another form is refused.
    private static final Pattern MESSAGE = Pattern.compile("\\{\"args\":\\[((?:\"[^\"\\\\]*\",?)*)\\],\"env\":(\\{.*\\}),\"limits\":(\\{.*\\})\\}");
    private static final Pattern ARGUMENT = Pattern.compile("\"([^\"]*)\"");
    private static final Pattern VARIABLE = Pattern.compile("\"((?:[^\"\\\\]|\\\\.)*)\":\"((?:[^\"\\\\]|\\\\.)*)\"");
    private static final Pattern LIMIT = Pattern.compile("\"([A-Z]+)\":(\\d+)");

    // What begins the names of variables that the C library, Java and its compiler read.
    private static final List<String> READ = List.of("CLASSPATH", "GCONV_", "GLIBC_", "HOME", "JAVA", "_JAVA", "JDK_", "LANG", "LC_", "LD_", "LOCPATH", "MALLOC_", "NLSPATH", "PATH", "TMP", "TZ");

    private final int control;
    private final Arena arena = Arena.ofConfined();
    private final MethodHandle read, write, close, setrlimit;

    Preload(int control) {
        this.control = control;
        read = function("read", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG);
        write = function("write", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG);
        close = function("close", ValueLayout.JAVA_INT, ValueLayout.JAVA_INT);
        setrlimit = function("setrlimit", ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.ADDRESS);
    }

    private static MethodHandle function(String name, MemoryLayout result, MemoryLayout... arguments) {
        Linker linker = Linker.nativeLinker();
        return linker.downcallHandle(linker.defaultLookup().find(name).orElseThrow(), FunctionDescriptor.of(result, arguments));
    }

    /** Returns the arguments when this process is that of a program's compile step. */
    String[] await() throws Throwable {
        warmUp();
        say("prepared\n" + mappedFiles());
        Matcher told = MESSAGE.matcher(hear());
        String refusal = "it has an argument that is to be escaped";
        try {
            if (told.matches()) {
                refusal = takeOver(told.group(1), told.group(2), told.group(3));
            }
        } catch (StackOverflowError e) { // Java's patterns recurse
            refusal = "it is too long";
        }
        say(refusal == null ? "yes" : refusal);
        if (refusal != null) {
            Runtime.getRuntime().halt(0); // the agent starts another
        }
        close();
        return ARGUMENT.matcher(told.group(1)).results().map(a -> a.group(1)).toArray(String[]::new);
    }

    /**
     * Has the compiler do what it will, so that its classes are there, and leaves nothing. Once is enough: twelve times took four times
     * as long, for as quick a compiler.
     */
    private static void warmUp() throws IOException {
        Path classes = Files.createTempDirectory("training");
        if (CompileJava.compile(classes, "/usr/local/lib/glovebox/Training.java") != 0) {
            throw new IOException("the training does not compile");
        }
        try (Stream<Path> walk = Files.walk(classes)) {
            walk.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
        System.gc(); // what waits is to hold little
    }

    /** Sets the program's limits, or says why this can't be its compiler. */
    private String takeOver(String arguments, String env, String limits) throws Throwable {
        if (Stream.of("@", "-proc", "--proc", "-Xplugin").anyMatch(a -> arguments.contains('"' + a)) || Files.exists(Path.of("META-INF"))) {
            return "it has code that the compiler may execute, or a file of arguments";
        }
        if (!read(env).equals(readHere())) {
            return "it has another value for what was read already";
        }
        for (Matcher limit = LIMIT.matcher(limits); limit.find(); ) {
            Integer resource = LIMITS.get(limit.group(1));
            if (resource == null) {
                return "it has a limit " + limit.group(1);
            }
            setLimit(resource, Long.parseLong(limit.group(2)));
        }
        return null;
    }

    /** Are the variables of a message that are read, as it has them. */
    private static Map<String, String> read(String env) {
        return VARIABLE.matcher(env).results().filter(v -> isRead(v.group(1))).collect(Collectors.toMap(v -> v.group(1), v -> v.group(2)));
    }

    /** Are those of this process: none has a character that JSON escapes, or else the two differ. */
    private static Map<String, String> readHere() {
        return System.getenv().entrySet().stream().filter(v -> isRead(v.getKey())).collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
    }

    private static boolean isRead(String variable) {
        return READ.stream().anyMatch(variable::startsWith);
    }

    /** Are the files that are mapped, one a line: the agent holds them, or the sandbox's kernel would do away with its mappings at the end. */
    private static String mappedFiles() throws IOException {
        StringBuilder told = new StringBuilder();
        for (String line : Files.readAllLines(Path.of("/proc/self/maps")).stream().filter(l -> l.contains(" /")).map(l -> l.substring(l.indexOf('/'))).distinct().toList()) {
            if (told.length() + line.length() < MOST_TOLD) {
                told.append(line).append('\n');
            }
        }
        return told.toString();
    }

    private void say(String text) throws Throwable {
        MemorySegment bytes = arena.allocateFrom(text);
        if ((long) write.invokeExact(control, bytes, bytes.byteSize() - 1) < 0) {
            throw new IOException("the agent can't be told");
        }
    }

    /** Waits for the program; the agent's end means that there is none. */
    private String hear() throws Throwable {
        MemorySegment bytes = arena.allocate(MOST);
        long n = (long) read.invokeExact(control, bytes, (long) MOST);
        if (n <= 0) {
            Runtime.getRuntime().halt(0);
        }
        return new String(bytes.asSlice(0, n).toArray(ValueLayout.JAVA_BYTE), StandardCharsets.UTF_8);
    }

    private void setLimit(int resource, long value) throws Throwable {
        MemorySegment both = arena.allocateFrom(ValueLayout.JAVA_LONG, value, value);
        if ((int) setrlimit.invokeExact(resource, both) != 0) {
            throw new IOException("a limit can't be set");
        }
    }

    private void close() throws Throwable {
        if ((int) close.invokeExact(control) != 0) {
            throw new IOException("the socket can't be closed");
        }
    }
}
