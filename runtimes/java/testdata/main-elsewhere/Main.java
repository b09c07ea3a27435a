class Helper {
    static String name() {
        return "Solution";
    }
}

class Solution {
    public static void main(String[] args) {
        System.out.println("main is in " + Helper.name());
    }
}
