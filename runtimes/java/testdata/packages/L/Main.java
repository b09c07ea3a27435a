package L;

public class Main {
    public static void main(String[] args) {
        System.out.println("its main");
    }

    @Override
    public String toString() {
        return "its";
    }
}
