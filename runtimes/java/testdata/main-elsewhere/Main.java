class Helper {
    static String name() {
        return "Solution";
    }

    static void log(String... what) {}
}

class Solution {
    static class In {
        In(String[] args) {}
    }

    public static void main(String[] args) {
        System.out.println("main is in " + Helper.name());
    }
}
