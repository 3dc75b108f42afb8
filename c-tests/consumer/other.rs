//! A library that allocates, and prints a panic that it catches.

#[no_mangle]
pub extern "C" fn other(n: u32) -> u32 {
    let words: Vec<String> = (1..=n).map(|i| i.to_string()).collect();
    let parsed = std::panic::catch_unwind(|| {
        let sum = words.iter().map(|word| word.parse::<u32>().unwrap()).sum();
        assert_ne!(sum, 6, "the sum is {sum}");
        sum
    });
    parsed.unwrap_or(6)
}
