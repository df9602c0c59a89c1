//! The lines of a file that grows, by pieces of 64 KiB and with a bound on how much of it is read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// The longest line, and how much is read at a time: the plug-in's lines have hundreds of bytes, with traces some thousands.
pub const LINE: usize = 64 * 1024;

/// Reads a file from where it was read to.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    offset: u64,
    /// Is the rest of a line to be passed over, and is that line lost by its length?
    passing: Option<Passing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passing {
    TooLong,
    Skipped,
}

/// What a piece had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// There may be more.
    More,
    /// Nothing more for now.
    End,
}

/// A line, or what stands for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// A line without its end.
    Line(&'a [u8]),
    /// One that is longer than [`LINE`].
    TooLong,
}

impl Tail {
    /// Where the next piece begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that are still to be read of a file of this size.
    #[must_use]
    pub fn left(&self, size: u64) -> u64 {
        size.saturating_sub(self.offset)
    }

    /// Is the file shorter than what was read of it? It was cut, and is read from its begin again.
    pub fn was_cut(&mut self, size: u64) -> bool {
        let was_cut = size < self.offset;
        if was_cut {
            *self = Self::default();
        }
        was_cut
    }

    /// Goes to the first line that begins in the last `most` bytes. What is between is lost.
    pub fn skip_to(&mut self, size: u64, most: u64) {
        self.offset = size.saturating_sub(most);
        self.passing = Some(Passing::Skipped);
    }

    /// Reads the next piece: whole lines, while the last one may still be being written.
    ///
    /// # Errors
    /// When the read fails.
    pub fn piece(&mut self, file: &File, buffer: &mut Vec<u8>, mut each: impl FnMut(Part<'_>)) -> io::Result<Piece> {
        buffer.resize(LINE, 0);
        let length = loop {
            match file.read_at(buffer, self.offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        let mut text = &buffer[..length];
        let piece = if length < LINE { Piece::End } else { Piece::More };
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            match self.passing.take() {
                None => each(Part::Line(&text[..end])),
                Some(Passing::TooLong) => each(Part::TooLong),
                Some(Passing::Skipped) => {}
            }
            self.offset += end as u64 + 1;
            text = &text[end + 1..];
        }
        if text.len() == LINE {
            self.passing.get_or_insert(Passing::TooLong);
        }
        if self.passing.is_some() {
            self.offset += text.len() as u64;
        }
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    struct Growing {
        file: File,
        tail: Tail,
        buffer: Vec<u8>,
    }

    impl Growing {
        fn new() -> Self {
            Self { file: tempfile::tempfile().unwrap(), tail: Tail::default(), buffer: Vec::new() }
        }

        fn add(&mut self, text: &str) {
            self.file.write_all(text.as_bytes()).unwrap();
        }

        /// The lines up to the end; `-` for one that is too long.
        fn lines(&mut self) -> Vec<String> {
            let mut all = Vec::new();
            loop {
                let each = |part: Part<'_>| match part {
                    Part::Line(line) => all.push(String::from_utf8_lossy(line).into_owned()),
                    Part::TooLong => all.push("-".to_owned()),
                };
                if self.tail.piece(&self.file, &mut self.buffer, each).unwrap() == Piece::End {
                    return all;
                }
            }
        }
    }

    #[test]
    fn a_line_is_read_once_it_is_whole() {
        let mut file = Growing::new();
        file.add("a\nb");
        assert_eq!(file.lines(), ["a"]);
        assert!(file.lines().is_empty());
        file.add("c\n\nd\n");
        assert_eq!(file.lines(), ["bc", "", "d"]);
    }

    #[test]
    fn lines_over_the_border_of_a_piece_are_whole() {
        let mut file = Growing::new();
        let line = "x".repeat(LINE / 2 + 1);
        file.add(&format!("{line}\n{line}\n{line}\nend\n"));
        assert_eq!(file.lines(), [line.clone(), line.clone(), line, "end".to_owned()]);
    }

    #[test]
    fn a_line_that_is_too_long_costs_itself() {
        for length in [LINE, LINE + 1, 3 * LINE, 3 * LINE + 5] {
            let mut file = Growing::new();
            file.add(&format!("a\n{}", "x".repeat(length)));
            assert_eq!(file.lines(), ["a"], "{length}");
            file.add("\nb\n");
            assert_eq!(file.lines(), ["-", "b"], "{length}");
        }
        let mut file = Growing::new();
        let longest = "x".repeat(LINE - 1);
        file.add(&format!("{longest}\n"));
        assert_eq!(file.lines(), [longest]);
    }

    /// Of a hole of 10 GB no more is read than asked for.
    #[test]
    fn most_of_a_long_file_is_passed_over() {
        let mut file = Growing::new();
        let size = 10_000_000_000;
        file.file.set_len(size).unwrap();
        assert_eq!(file.tail.left(size), size);
        file.tail.skip_to(size, 3 * LINE as u64);
        let mut pieces = 1;
        while file.tail.piece(&file.file, &mut file.buffer, |_| panic!("there is no line")).unwrap() == Piece::More {
            pieces += 1;
        }
        assert_eq!((pieces, file.tail.left(size)), (4, 0));
    }

    #[test]
    fn after_a_jump_the_first_line_is_a_whole_one() {
        let mut file = Growing::new();
        file.add("first\nsecond\nthird\n");
        file.tail.skip_to(19, 10);
        assert_eq!(file.lines(), ["third"]);
    }

    #[test]
    fn a_file_that_was_cut_is_read_again() {
        let mut file = Growing::new();
        file.add("a\nb\nc\n");
        assert_eq!(file.lines().len(), 3);
        file.file.set_len(2).unwrap();
        assert!(file.lines().is_empty(), "what is read is no longer there, which ends the reading and nothing else");
        assert!(file.tail.was_cut(2));
        assert_eq!(file.lines(), ["a"]);
        assert!(!file.tail.was_cut(2));
    }
}
