class Solution {
    public static void main(String[] args) {
        System.out.println("main is in " + Main.name());
    }
}
