import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.classfile.ClassFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * Compiles a program into /tmp/classes, and writes to /tmp/java.args how java is to be called for it. With
 * GLOVEBOX_PRELOAD it waits until there is a program, with a compiler that has compiled before.
 */
public final class CompileJava {
    static final Path CLASSES = Path.of("/tmp/classes");
    private static final int ERRORS = 1; // javac's exit code where sources have errors
    // A method's name and type, as a class file has them among its constants.
    private static final byte[] MAIN = constant("main"), OF_STRINGS = constant("([Ljava/lang/String;)V");

    public static void main(String[] args) throws Throwable {
        String control = System.getenv("GLOVEBOX_PRELOAD");
        if (control != null) {
            args = new Preload(Integer.parseInt(control)).await();
        }
        System.exit(run(args));
    }

    private static int run(String[] args) throws IOException {
        String[] all = withOthers(args);
        int failed = all.length > args.length ? compile(args, all) : compile(CLASSES, args);
        if (failed != 0) {
            return failed;
        }
        String file = args[args.length - 1];
        String name = Path.of(file).getFileName().toString().replaceFirst("\\.java$", "");
        String main = mainClass(name);
        if (main == null) { // it may be in a file that this one doesn't refer to
            failed = all.length > args.length ? compile(CLASSES, all) : 0;
            if (failed != 0) {
                return failed;
            }
            main = mainClass(name);
        }
        if (main == null) {
            main = named(name);
        }
        if (main == null) {
            System.err.println("java: " + file + " has no class " + name + ", and none with a main(String[])");
            return 1;
        }
        // A heap that begins small stays near what the program holds. Its bound is near the most that a
        // job's memory_mb can be: a job that has less is ended when it passes that.
        Files.writeString(Path.of("/tmp/java.args"), "-XX:+UseSerialGC -XX:-UsePerfData -Xms32m -Xmx1536m -cp /tmp/classes:. " + main + "\n");
        return 0;
    }

    /** Compiles; the last argument is the file, and others are javac's. */
    static int compile(Path classes, String... args) {
        return Javac.run(javacArguments(classes, args));
    }

    /**
     * Compiles the file, and where it has errors all sources: javac looks for a class only in the file that is called as it is. What the
     * last of the two has said is told.
     */
    private static int compile(String[] args, String[] all) {
        StringWriter told = new StringWriter();
        int failed = Javac.run(new PrintWriter(told), javacArguments(CLASSES, args));
        if (failed == ERRORS) {
            return compile(CLASSES, all);
        }
        System.err.print(told);
        return failed;
    }

    private static String[] javacArguments(Path classes, String... args) {
        List<String> all = new ArrayList<>(List.of("-proc:none", "-g", "-d", classes.toString()));
        Collections.addAll(all, args);
        return all.toArray(String[]::new);
    }

    /** Are the compiler's arguments with all other sources of the job's directory before the file. */
    private static String[] withOthers(String[] args) throws IOException {
        Path file = Path.of(args[args.length - 1]).toAbsolutePath().normalize();
        List<String> all = new ArrayList<>(Arrays.asList(args));
        try (Stream<Path> walk = Files.walk(Path.of(""))) {
            all.addAll(args.length - 1, walk.filter(f -> f.toString().endsWith(".java") && !f.toAbsolutePath().equals(file)).map(f -> "./" + f).sorted().toList());
        }
        return all.toArray(String[]::new);
    }

    /**
     * Is the class named like the file, if it has a main, its own or that of one that it extends; else one whose constants show a method
     * main(String[]); null if there is none. Classes of packages come behind others.
     */
    static String mainClass(String name) throws IOException {
        Path inheriting = null, other = null;
        for (Path file : classes()) {
            byte[] bytes = Files.readAllBytes(file);
            if (file.getFileName().toString().equals(name + ".class")) {
                if (contains(bytes, MAIN)) {
                    return className(file);
                }
                inheriting = inheriting == null && inheritsMain(bytes) ? file : inheriting;
            } else if (other == null && contains(bytes, MAIN) && contains(bytes, OF_STRINGS)) {
                other = file;
            }
        }
        Path main = inheriting == null ? other : inheriting;
        return main == null ? null : className(main);
    }

    /** Is the first class of that name, with a main or without one, of which java says so; null if there is none. */
    private static String named(String name) throws IOException {
        return classes().stream().filter(f -> f.getFileName().toString().equals(name + ".class")).map(CompileJava::className).findFirst().orElse(null);
    }

    private static List<Path> classes() throws IOException {
        if (!Files.isDirectory(CLASSES)) {
            return List.of();
        }
        try (Stream<Path> walk = Files.walk(CLASSES)) {
            return walk.filter(f -> f.toString().endsWith(".class")).sorted(Comparator.comparing(Path::getNameCount).thenComparing(CompileJava::className)).toList();
        }
    }

    /** Reports whether a class extends one of the program that has a main. */
    private static boolean inheritsMain(byte[] bytes) throws IOException {
        var parent = ClassFile.of().parse(bytes).superclass();
        Path file = CLASSES.resolve(parent.map(c -> c.asInternalName()).orElse("") + ".class");
        if (!Files.exists(file)) {
            return false;
        }
        byte[] its = Files.readAllBytes(file);
        return contains(its, MAIN) || inheritsMain(its);
    }

    private static byte[] constant(String text) {
        return ("\u0001\u0000" + (char) text.length() + text).getBytes(StandardCharsets.US_ASCII);
    }

    private static String className(Path file) {
        return CLASSES.relativize(file).toString().replaceFirst("\\.class$", "").replace('/', '.');
    }

    private static boolean contains(byte[] bytes, byte[] part) {
        for (int i = 0; i + part.length <= bytes.length; i++) {
            if (Arrays.equals(bytes, i, i + part.length, part, 0, part.length)) {
                return true;
            }
        }
        return false;
    }
}
