fn main() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    println!("{} {}", line.trim(), line.trim().chars().count());
}
