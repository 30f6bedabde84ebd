//! Answers of one letter, each declared once.

use std::collections::{BTreeMap, BTreeSet};

use crate::File;

/// A script's answer of one letter.
pub trait Letters: Sized {
    /// All letters, in the order of the declaration. More values of the script's answer may belong to a letter.
    const LETTERS: &'static [u8];

    /// The letter of the answer.
    fn letter(&self) -> u8;

    /// The answer behind the letter. `None`: an unknown letter, or a letter with more values.
    fn of_letter(letter: u8) -> Option<Self>;
}

/// An answer whose letters have their values in `V`.
pub trait ReadLetters<V, E>: Letters {
    /// Reads the answer behind the letter, and takes the values of the letter from `more`. `None`: an unknown letter.
    ///
    /// # Errors
    /// A value is missing, or is not of the letter's type.
    fn read(letter: u8, more: &mut V) -> Result<Option<Self>, E>;
}

/// A source of the values behind letters.
pub trait More<T, E> {
    /// Takes the next value.
    ///
    /// # Errors
    /// There is no such value.
    fn more(&mut self) -> Result<T, E>;
}

/// The differences between the headers of scripts and the declared letters of the scripts' answers, in words.
///
/// Each script declares all letters of its lists ([`File::letters`]), list by list. Scripts with the same answer explain all
/// letters of the answer together.
pub fn strange_letters(files: &[File]) -> Vec<String> {
    let (mut strange, mut explained) = (Vec::new(), BTreeMap::new());
    for file in files {
        let mut say = |what: &str| strange.push(format!("{}: {what}", file.name()));
        let (listed, declared) = (file.letters(), file.answers());
        if listed.len() != declared.len() {
            say(&format!("{} lists of letters, and {} declared answers", listed.len(), declared.len()));
        }
        for (listed, declared) in listed.into_iter().zip(declared) {
            for letter in listed.iter().filter(|letter| !declared.contains(letter)) {
                say(&format!("the letter {} is not declared", char::from(*letter)));
            }
            explained.entry(*declared).or_insert_with(|| (file, BTreeSet::new())).1.extend(listed);
        }
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
/// use tenure_steps::{Letters, More, ReadLetters};
/// assert_eq!(SteerReply::LETTERS, b"KM-");
/// assert_eq!(SteerReply::of_letter(b'K'), Some(SteerReply::Told));
/// // The owner is one of the values that follow.
/// assert_eq!(SteerReply::of_letter(b'M'), None);
/// struct Owners(std::vec::IntoIter<u64>);
/// impl More<u64, &'static str> for Owners {
///     fn more(&mut self) -> Result<u64, &'static str> {
///         self.0.next().ok_or("no owner")
///     }
/// }
/// let mut owners = Owners(vec![7].into_iter());
/// assert_eq!(SteerReply::read(b'M', &mut owners), Ok(Some(SteerReply::Owner(7))));
/// assert_eq!(SteerReply::read(b'M', &mut owners), Err("no owner"));
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

            fn letter(&self) -> u8 {
                match self {
                    $(Self::$variant $(($($crate::letters!(@any $data)),+))? => $letter,)+
                }
            }

            fn of_letter(letter: u8) -> Option<Self> {
                $($crate::letters!(@plain letter $letter $variant $(($($data),+))?);)+
                None
            }
        }

        impl<V, E> $crate::ReadLetters<V, E> for $name
        where
            V: Sized $($($(+ $crate::More<$data, E>)+)?)+,
        {
            fn read(letter: u8, more: &mut V) -> ::std::result::Result<Option<Self>, E> {
                let _ = &more;
                Ok(Some(match letter {
                    $($letter => Self::$variant $(($(<V as $crate::More<$data, E>>::more(more)?),+))?,)+
                    _ => return Ok(None),
                }))
            }
        }
    };
    (@any $data:ty) => { _ };
    (@plain $given:ident $letter:literal $variant:ident) => {
        if $given == $letter {
            return Some(Self::$variant);
        }
    };
    (@plain $given:ident $letter:literal $variant:ident ($($data:ty),+)) => {};
}

#[cfg(test)]
mod tests {
    use super::{Letters, More, ReadLetters, strange_letters};
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
        let all = [Reply::Kept, Reply::Refused(1, 2), Reply::Nothing];
        assert_eq!(all.map(|reply| reply.letter()), *b"KM-");
    }

    impl More<u8, ()> for &[u8] {
        fn more(&mut self) -> Result<u8, ()> {
            self.split_off_first().copied().ok_or(())
        }
    }

    #[test]
    fn a_letter_takes_its_values_in_their_order() {
        let mut values = &b"abc"[..];
        let mut read = |letter| Reply::read(letter, &mut values);
        assert_eq!(read(b'K'), Ok(Some(Reply::Kept)));
        assert_eq!(read(b'M'), Ok(Some(Reply::Refused(b'a', b'b'))));
        assert_eq!((read(b'?'), read(b'M')), (Ok(None), Err(())));
    }

    #[test]
    fn a_header_that_disagrees_with_its_answer_is_found() {
        const KM: File = File::new("keep-0", "-- Returns: a letter per job: K kept | M refused\n");
        const LESS: File = File::new("touch-0", "-- Returns: a letter per job: - nothing done\n");
        const BARE: File = File::new("bare-0", "return 1\n");
        let of = &[Reply::LETTERS];
        assert!(strange_letters(&[KM.answering(of), LESS.answering(of), BARE]).is_empty());
        let strange = strange_letters(&[KM.answering(of), BARE.answering(&[b"K"]), LESS]);
        assert_eq!(
            strange,
            [
                "bare-0: 0 lists of letters, and 1 declared answers",
                "touch-0: 1 lists of letters, and 0 declared answers",
                "keep-0: no header explains the letter -",
            ]
        );
        assert_eq!(strange_letters(&[KM.answering(&[b"K"])]), ["keep-0: the letter M is not declared"]);
    }
}
