import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * Compiles a program into /tmp/classes, and writes to /tmp/java.args how java is to be called for it. With
 * GLOVEBOX_PRELOAD it waits until there is a program, with a compiler that has compiled before.
 */
public final class CompileJava {
    static final Path CLASSES = Path.of("/tmp/classes");
    private static final byte[] MAIN = "([Ljava/lang/String;)V".getBytes(StandardCharsets.US_ASCII);

    public static void main(String[] args) throws Throwable {
        // javac takes Java's own class path for the program's, and this one's is a jar of ours.
        System.setProperty("java.class.path", Objects.requireNonNullElse(System.getenv("CLASSPATH"), ""));
        String control = System.getenv("GLOVEBOX_PRELOAD");
        if (control != null) {
            args = new Preload(Integer.parseInt(control)).await();
        }
        System.exit(run(args));
    }

    private static int run(String[] args) throws IOException {
        int failed = compile(CLASSES, args);
        if (failed != 0) {
            return failed;
        }
        String file = args[args.length - 1];
        String name = Path.of(file).getFileName().toString().replaceFirst("\\.java$", "");
        String main = mainClass(name);
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
        List<String> all = new ArrayList<>(List.of("-proc:none", "-g", "-d", classes.toString()));
        Collections.addAll(all, args);
        return com.sun.tools.javac.Main.compile(all.toArray(String[]::new));
    }

    /** Is the class named like the file, else one whose constants show a method of main's kind; null if there is none. */
    static String mainClass(String name) throws IOException {
        List<Path> files;
        try (Stream<Path> walk = Files.walk(CLASSES)) {
            files = walk.filter(f -> f.toString().endsWith(".class")).sorted().toList();
        }
        for (Path file : files) {
            if (file.getFileName().toString().equals(name + ".class")) {
                return className(file);
            }
        }
        for (Path file : files) {
            if (contains(Files.readAllBytes(file), MAIN)) {
                return className(file);
            }
        }
        return null;
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
