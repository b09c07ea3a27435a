public class Main {
    static long sum(int n) {
        return sum(n - 1) + n;
    }

    public static void main(String[] args) {
        System.out.println(sum(1));
    }
}
