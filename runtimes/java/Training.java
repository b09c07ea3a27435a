import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.PriorityQueue;
import java.util.Scanner;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Has a bit of everything that programs have, for the compiler's cache to be made with. */
public class Training {
    sealed interface Shape permits Circle, Square {}

    record Circle(double radius) implements Shape {}

    record Square(double side) implements Shape {}

    enum Colour { RED, GREEN }

    abstract static class Animal<T extends Comparable<T>> {
        protected final T name;

        Animal(T name) {
            this.name = name;
        }

        abstract String sound();
    }

    static class Dog extends Animal<String> {
        Dog() {
            super("dog");
        }

        @Override
        String sound() {
            return "bow wow";
        }
    }

    static double area(Shape shape) {
        return switch (shape) {
            case Circle c -> Math.PI * c.radius() * c.radius();
            case Square(double side) -> side * side;
        };
    }

    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        Map<String, List<Integer>> lists = new HashMap<>();
        for (String line; (line = in.readLine()) != null; ) {
            lists.computeIfAbsent(line.trim(), key -> new ArrayList<>()).add(line.length());
        }
        Scanner scanner = new Scanner("1 2 3");
        int[] numbers = IntStream.generate(scanner::nextInt).limit(3).toArray();
        PriorityQueue<long[]> queue = new PriorityQueue<>(Comparator.comparingLong(pair -> pair[0]));
        queue.add(new long[] {1, 2});
        var stack = new ArrayDeque<Character>();
        for (char c : "text".toCharArray()) {
            stack.push(c);
        }
        String joined = lists.entrySet().stream().map(e -> e.getKey() + "=" + e.getValue()).collect(Collectors.joining(", "));
        Function<Integer, Optional<Integer>> half = n -> n % 2 == 0 ? Optional.of(n / 2) : Optional.empty();
        try {
            synchronized (queue) {
                Thread thread = new Thread(() -> System.out.println(lists));
                thread.start();
                thread.join();
            }
        } catch (IllegalStateException | InterruptedException e) {
            throw new RuntimeException("it failed", e);
        } finally {
            System.out.printf("%s %d %.2f%n", joined, numbers.length, area(new Circle(2)));
        }
        StringBuilder text = new StringBuilder();
        outer:
        for (int i = 0; i < 10; i++) {
            do {
                text.append(i).append(half.apply(i).orElse(0));
                if (i > 5) {
                    break outer;
                }
            } while (text.length() < 3);
        }
        assert new Dog().sound() != null : Colour.valueOf("RED");
        System.out.println(text);
    }
}
