//! Something per series, found by its id without hashing. Ids are given once and for all, so that under churn most of
//! those that ever were are gone: they take half a byte each.

use super::catalogue::SeriesId;

/// Series that share a piece of memory.
const PAGE: usize = 16;

pub(super) struct Pages<T> {
    pages: Vec<Option<Box<[T; PAGE]>>>,
    /// How many there are.
    held: usize,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), held: 0 }
    }
}

impl<T: Default + PartialEq> Pages<T> {
    /// Memory taken, in bytes, without what the things themselves point to.
    pub(super) fn bytes(&self) -> usize {
        self.pages.len() * size_of::<Option<Box<[T; PAGE]>>>() + self.held * size_of::<[T; PAGE]>()
    }

    /// None where nothing near was ever set.
    pub(super) fn get(&self, id: SeriesId) -> Option<&T> {
        let index = id.0 as usize;
        self.pages.get(index / PAGE)?.as_ref().map(|page| &page[index % PAGE])
    }

    /// The default where nothing was set.
    pub(super) fn get_mut(&mut self, id: SeriesId) -> &mut T {
        let index = id.0 as usize;
        if index / PAGE >= self.pages.len() {
            self.pages.resize_with(index / PAGE + 1, || None);
        }
        let page = &mut self.pages[index / PAGE];
        self.held += usize::from(page.is_none());
        &mut page.get_or_insert_with(Box::default)[index % PAGE]
    }

    /// All that there may be, in order of id.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SeriesId, &T)> {
        let pages = (0_u32..).step_by(PAGE).zip(&self.pages).filter_map(|(first, page)| Some((first, page.as_ref()?)));
        pages.flat_map(|(first, page)| (first..).map(SeriesId).zip(page.iter()))
    }

    /// Gives back the memory of series near which everything is the default.
    pub(super) fn shrink(&mut self) {
        for page in &mut self.pages {
            if page.as_ref().is_some_and(|page| page.iter().all(|thing| *thing == T::default())) {
                *page = None;
                self.held -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_found_and_what_is_gone_takes_next_to_nothing() {
        let mut pages = Pages::<u64>::default();
        for id in 0..1_000_000 {
            *pages.get_mut(SeriesId(id)) = u64::from(id) + 1;
        }
        let full = pages.bytes();
        assert_eq!(pages.get(SeriesId(999_999)), Some(&1_000_000));
        assert_eq!(pages.get(SeriesId(1_000_000)), None);
        for id in (0..1_000_000).filter(|id| *id != 500_000) {
            *pages.get_mut(SeriesId(id)) = 0;
        }
        pages.shrink();
        assert!(full > 8_000_000 && pages.bytes() < 501_000, "{full} {}", pages.bytes());
        let set: Vec<_> = pages.iter().filter(|(_, thing)| **thing != 0).collect();
        assert_eq!(set, [(SeriesId(500_000), &500_001)]);
        *pages.get_mut(SeriesId(3)) += 1;
        assert_eq!(pages.iter().next(), Some((SeriesId(0), &0)));
    }
}
