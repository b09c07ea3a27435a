public class Main {
    void main() {
        System.out.println("mine, and " + new L.Main());
    }
}
