import java.nio.file.Files;
import java.nio.file.Path;

import lib.Sum;

public class Main {
    public static void main(String[] args) throws Exception {
        int sum = Sum.of(Files.readAllLines(Path.of("data/in.txt")));
        Files.writeString(Path.of("out.txt"), sum + "\n");
        System.out.println(sum);
    }
}
