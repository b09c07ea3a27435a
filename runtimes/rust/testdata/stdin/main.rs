use std::io::Read;

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let sum: i32 = text.lines().map(|line| line.parse::<i32>().unwrap()).sum();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!("{sum} {}", arguments.join(" "));
}
