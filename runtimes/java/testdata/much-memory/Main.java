import java.util.ArrayList;
import java.util.List;

class Main {
    public static void main(String[] args) {
        List<byte[]> all = new ArrayList<>();
        for (int i = 0; i < 1700; i++) {
            all.add(new byte[1 << 20]);
        }
        System.out.println(all.size());
    }
}
