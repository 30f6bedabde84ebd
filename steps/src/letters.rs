//! Answers of one letter, each declared once.

use std::collections::{BTreeMap, BTreeSet};

use crate::File;

/// A script's answer of one letter.
pub trait Letters: Sized {
    /// All letters, in the order of the declaration. More values of the script's answer may belong to a letter.
    const LETTERS: &'static [u8];

    /// The answer behind the letter. `None`: an unknown letter, or a letter with more values.
    fn of_letter(letter: u8) -> Option<Self>;
}

/// The differences between the headers of scripts and the declared letters of the scripts' answers, in words.
///
/// Each script with a list of letters ([`File::letters`]) declares all letters of the list. Scripts with the same answer
/// explain all letters of the answer together.
pub fn strange_letters(files: &[File]) -> Vec<String> {
    let (mut strange, mut explained) = (Vec::new(), BTreeMap::new());
    for file in files {
        let mut say = |what: &str| strange.push(format!("{}: {what}", file.name()));
        let (listed, declared) = match (file.letters(), file.answer()) {
            (Some(listed), Some(declared)) => (listed, declared),
            (Some(_), None) => {
                say("no enum has the letters of the header");
                continue;
            }
            (None, Some(_)) => {
                say("the header lists no letters");
                continue;
            }
            (None, None) => continue,
        };
        for letter in listed.iter().filter(|letter| !declared.contains(letter)) {
            say(&format!("the letter {} is not declared", char::from(*letter)));
        }
        explained.entry(declared).or_insert_with(|| (file, BTreeSet::new())).1.extend(listed);
    }
    for (declared, (file, listed)) in explained {
        for letter in declared.iter().filter(|letter| !listed.contains(letter)) {
            strange.push(format!("{}: no header explains the letter {}", file.name(), char::from(*letter)));
        }
    }
    strange
}

/// Declares an enum whose variants are letters of a script's answer, with [`Letters`](crate::Letters).
///
/// ```
/// tenure_steps::letters! {
///     /// The answer to a steer.
///     #[derive(Debug, PartialEq, Eq)]
///     pub enum SteerReply {
///         /// The owner of the job is told.
///         b'K': Told,
///         /// The caller's guess is wrong: the owner of the job.
///         b'M': Owner(u64),
///         /// Nothing is done.
///         b'-': Nothing,
///     }
/// }
/// use tenure_steps::Letters;
/// assert_eq!(SteerReply::LETTERS, b"KM-");
/// assert_eq!(SteerReply::of_letter(b'K'), Some(SteerReply::Told));
/// // The reader of the answer makes the owner of the values that follow.
/// assert_eq!(SteerReply::of_letter(b'M'), None);
/// ```
#[macro_export]
macro_rules! letters {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$doc:meta])* $letter:literal: $variant:ident $(($($data:ty),+))?),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $($(#[$doc])* $variant $(($($data),+))?,)+
        }

        impl $crate::Letters for $name {
            const LETTERS: &'static [u8] = &[$($letter),+];

            fn of_letter(letter: u8) -> Option<Self> {
                $($crate::letters!(@plain letter $letter $variant $(($($data),+))?);)+
                None
            }
        }
    };
    (@plain $given:ident $letter:literal $variant:ident) => {
        if $given == $letter {
            return Some(Self::$variant);
        }
    };
    (@plain $given:ident $letter:literal $variant:ident ($($data:ty),+)) => {};
}

#[cfg(test)]
mod tests {
    use super::{Letters, strange_letters};
    use crate::File;

    letters! {
        /// An answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Reply {
            /// Kept.
            b'K': Kept,
            /// Refused for this reason.
            b'M': Refused(u8, u8),
            /// Nothing was done.
            b'-': Nothing,
        }
    }

    #[test]
    fn a_letter_is_read_as_its_variant_and_a_strange_one_is_none() {
        assert_eq!(Reply::LETTERS, b"KM-");
        let read = b"K-Mk?".map(Reply::of_letter);
        assert_eq!(read, [Some(Reply::Kept), Some(Reply::Nothing), None, None, None]);
        assert_ne!(Some(Reply::Refused(1, 2)), Reply::of_letter(b'M'));
    }

    #[test]
    fn a_header_that_disagrees_with_its_answer_is_found() {
        const KM: File = File::new("keep-0", "-- Returns: a letter per job: K kept | M refused\n");
        const LESS: File = File::new("touch-0", "-- Returns: a letter per job: - nothing done\n");
        const BARE: File = File::new("bare-0", "return 1\n");
        let of = Reply::LETTERS;
        assert!(strange_letters(&[KM.answering(of), LESS.answering(of), BARE]).is_empty());
        let strange = strange_letters(&[KM.answering(of), BARE.answering(b"K"), LESS]);
        assert_eq!(
            strange,
            [
                "bare-0: the header lists no letters",
                "touch-0: no enum has the letters of the header",
                "keep-0: no header explains the letter -",
            ]
        );
        assert_eq!(strange_letters(&[KM.answering(b"K")]), ["keep-0: the letter M is not declared"]);
    }
}
