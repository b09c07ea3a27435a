class Main {
    static String name() {
        return "Solution";
    }
}
