//! Owned tables: the only record of what they hold. A rebuild never touches them (I4).

pub mod behind;
pub mod operations;
pub mod outbox;
pub mod repairs;
pub mod seals;
pub mod sessions;
pub mod transitions;

/// The longest start of a text that fits `max` bytes, cut between characters.
fn clipped(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(super::clipped("aéb", 2), "a");
        assert_eq!(super::clipped("aéb", 3), "aé");
        assert_eq!(super::clipped("aéb", 9), "aéb");
    }
}
