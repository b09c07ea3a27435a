mod sum;

fn main() {
    let total = sum::of(&std::fs::read_to_string("data/in.txt").unwrap());
    std::fs::write("out.txt", total.to_string()).unwrap();
    println!("{total}");
}
