class Tree {}

class Node {
    private final String file;

    Node(String file) {
        this.file = file;
    }

    String file() {
        return file;
    }
}
