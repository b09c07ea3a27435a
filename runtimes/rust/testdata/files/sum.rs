pub fn of(text: &str) -> i32 {
    text.lines().map(|line| line.parse::<i32>().unwrap()).sum()
}
