public class Main {
    public static void main(String[] args) {
        System.out.println("Node is in " + new Node("Tree").file());
    }
}
