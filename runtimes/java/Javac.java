import java.io.PrintWriter;
import java.util.Objects;

/** Is javac as the image has it cached, for commands that bring their own arguments. */
final class Javac {
    public static void main(String[] args) {
        System.exit(run(args));
    }

    static int run(String... args) {
        setClassPath();
        return com.sun.tools.javac.Main.compile(args);
    }

    static int run(PrintWriter told, String... args) {
        setClassPath();
        return com.sun.tools.javac.Main.compile(args, told);
    }

    /** javac takes Java's own class path for the program's, and this one's is a jar of ours. */
    private static void setClassPath() {
        System.setProperty("java.class.path", Objects.requireNonNullElse(System.getenv("CLASSPATH"), ""));
    }
}
