import java.util.Objects;

/** Is javac as the image has it cached, for commands that bring their own arguments. */
final class Javac {
    public static void main(String[] args) {
        System.exit(run(args));
    }

    static int run(String... args) {
        // javac takes Java's own class path for the program's, and this one's is a jar of ours.
        System.setProperty("java.class.path", Objects.requireNonNullElse(System.getenv("CLASSPATH"), ""));
        return com.sun.tools.javac.Main.compile(args);
    }
}
