package lib;

import java.util.List;

public class Sum {
    public static int of(List<String> numbers) {
        return numbers.stream().mapToInt(Integer::parseInt).sum();
    }
}
