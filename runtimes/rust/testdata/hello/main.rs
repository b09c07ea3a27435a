fn main() {
    println!("hello, wörld");
}
