fn main() {
    println!("before");
    panic!("on purpose");
}
