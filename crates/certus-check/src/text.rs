//! The text of certificates: one `key values…` per line in a fixed order (docs/certificate-format.md).

use crate::ball::LARGE;
use crate::refusal::Refusal;
use crate::sha256::Hash;
use crate::stated::Stated;

/// The first word of every certificate.
pub(crate) const HEADER: &str = "certus-proof";

/// The rows of a lower triangle.
pub fn triangle(all: &[f64]) -> impl Iterator<Item = &[f64]> {
    (0..).map_while(|i: usize| all.get(i * (i + 1) / 2..(i + 1) * (i + 2) / 2))
}

/// The lines of a certificate, one after the other.
#[derive(Clone)]
pub(crate) struct Lines<'a> {
    rest: std::str::Lines<'a>,
    number: usize,
}

impl<'a> Lines<'a> {
    /// The lines after that of the version, and the claim.
    pub(crate) fn begin(text: &'a str) -> Result<(Self, &'a str), Refusal> {
        let mut lines = Self { rest: text.lines(), number: 0 };
        let blank = |c: char| c.is_whitespace() || c.is_control();
        if text.replace("\r\n", "\n").chars().any(|c| blank(c) && !" \t\n".contains(c)) {
            return Err(lines.wrong("only spaces and tabs are blanks"));
        }
        match lines.words(HEADER)?[..] {
            ["1"] => {}
            [version, ..] => return Err(Refusal::NotCheckable(format!("version {version} of the format"))),
            [] => return Err(lines.wrong("the version is missing")),
        }
        let claim = lines.word("claim")?;
        Ok((lines, claim))
    }

    /// The line that names the theorem.
    pub(crate) fn theorem(&mut self, name: &str) -> Result<(), Refusal> {
        match self.word("theorem")? {
            word if word == name => Ok(()),
            other => Err(Refusal::NotCheckable(format!("the theorem \"{other}\""))),
        }
    }

    pub(crate) fn end(mut self) -> Result<(), Refusal> {
        if !self.words("end")?.is_empty() || self.rest.any(|line| !line.trim().is_empty()) {
            return Err(self.wrong("nothing may follow \"end\""));
        }
        Ok(())
    }

    pub(crate) fn wrong(&self, what: &str) -> Refusal {
        Refusal::NotProved(format!("line {} of the certificate: {what}", self.number))
    }

    pub(crate) fn is_next(&self, key: &str) -> bool {
        self.rest.clone().next().is_some_and(|line| line.split_whitespace().next() == Some(key))
    }

    /// The values on the next line, which must have this key.
    pub(crate) fn words(&mut self, key: &str) -> Result<Vec<&'a str>, Refusal> {
        self.number += 1;
        let line = self.rest.next().ok_or_else(|| self.wrong(&format!("\"{key}\" is missing")))?;
        let mut words = line.split_whitespace();
        if words.next() != Some(key) {
            return Err(self.wrong(&format!("\"{key}\" is expected here")));
        }
        Ok(words.collect())
    }

    pub(crate) fn word(&mut self, key: &str) -> Result<&'a str, Refusal> {
        match self.words(key)?[..] {
            [word] => Ok(word),
            _ => Err(self.wrong(&format!("\"{key}\" takes one value"))),
        }
    }

    pub(crate) fn flag(&mut self, key: &str) -> Result<bool, Refusal> {
        match self.word(key)? {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(self.wrong(&format!("\"{key}\" is yes or no"))),
        }
    }

    pub(crate) fn count(&mut self, key: &str) -> Result<u64, Refusal> {
        let word = self.word(key)?;
        self.as_count(word)
    }

    pub(crate) fn as_count(&self, word: &str) -> Result<u64, Refusal> {
        let count = word.parse().ok().filter(|n| *n < 1 << 48 && !word.starts_with('+'));
        count.ok_or_else(|| self.wrong("a whole number is expected"))
    }

    /// The binary64 number nearest to a decimal one.
    pub(crate) fn parse(&self, word: &str) -> Result<f64, Refusal> {
        let number = word.parse().ok().filter(|x: &f64| x.abs() <= LARGE);
        number.ok_or_else(|| self.wrong(&format!("\"{word}\" is not a number between -1e50 and 1e50")))
    }

    /// What all words mean.
    pub(crate) fn each<T>(
        &self,
        words: &[&str],
        meaning: impl Fn(&Self, &str) -> Result<T, Refusal>,
    ) -> Result<Vec<T>, Refusal> {
        words.iter().map(|word| meaning(self, word)).collect()
    }

    pub(crate) fn numbers(&mut self, key: &str, count: usize) -> Result<Vec<f64>, Refusal> {
        let words = self.words(key)?;
        if words.len() != count {
            return Err(self.wrong(&format!("\"{key}\" has {} values instead of {count}", words.len())));
        }
        self.each(&words, Self::parse)
    }

    pub(crate) fn number(&mut self, key: &str) -> Result<f64, Refusal> {
        Ok(self.numbers(key, 1)?[0])
    }

    pub(crate) fn triangle(&mut self, key: &str, d: usize) -> Result<Vec<f64>, Refusal> {
        let mut all = Vec::new();
        for i in 0..d {
            all.extend(self.numbers(key, i + 1)?);
        }
        Ok(all)
    }

    /// A radius, and then so many numbers.
    pub(crate) fn stated(&mut self, key: &str, count: usize) -> Result<Stated, Refusal> {
        let mut all = self.numbers(key, 1 + count)?;
        Ok(Stated { parts: all.split_off(1), rad: all[0] })
    }

    pub(crate) fn hash(&mut self, key: &str) -> Result<Hash, Refusal> {
        let word = self.word(key)?;
        self.as_hash(word)
    }

    pub(crate) fn as_hash(&self, word: &str) -> Result<Hash, Refusal> {
        let mut hash = [0; 32];
        if word.len() != 64 || !word.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(self.wrong("a hash of 64 hexadecimal digits is expected"));
        }
        for (k, digit) in word.chars().filter_map(|c| c.to_digit(16)).enumerate() {
            hash[k / 2] = hash[k / 2] << 4 | digit as u8;
        }
        Ok(hash)
    }
}
