//! Names, previews and tags.

use deeplink_core::link::{MAX_NAME, MAX_PREVIEW_DESCRIPTION, MAX_PREVIEW_TITLE};

use super::super::cells::Draft;
use super::super::fields::Field;
use super::row::RowCells;
use super::{Fault, Foreign, ForeignNotes, Role, state, unplaced};

impl Foreign {
    /// Sets the name, the preview and the tags.
    pub(super) fn describe(
        &self,
        row: &RowCells<'_>,
        draft: &mut Draft,
        notes: &mut ForeignNotes,
    ) -> Result<(), Fault> {
        // Without a preview of its own, a link of Dub has the title of its destination, which its list of links shows.
        let is_page_title = self.profile.needs_proxy && !row.text(&Role::Proxy).is_some_and(state::is_true);
        let name = row.text(&Role::Name).or_else(|| is_page_title.then(|| row.text(&Role::Title)).flatten());
        if let Some(name) = name {
            let name = cut(&one_line(name), MAX_NAME, &mut notes.cut_names);
            draft.apply(&Field::Name, Some(&name)).map_err(unplaced)?;
        }
        self.preview(row, draft, notes)?;
        let tags: Vec<String> = row.all(&Role::Tags).flat_map(|cell| self.tags(cell)).collect();
        if !tags.is_empty() {
            draft.tags(Some(tags));
        }
        Ok(())
    }

    fn preview(&self, row: &RowCells<'_>, draft: &mut Draft, notes: &mut ForeignNotes) -> Result<(), Fault> {
        if self.profile.needs_proxy {
            match row.text(&Role::Proxy) {
                Some(text) if state::is_true(text) => {}
                Some(_) => {
                    // They are those of the destination, which previews show anyway.
                    for role in [Role::Title, Role::Description, Role::Image] {
                        row.all(&role).for_each(drop);
                    }
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
        let mut set = |field: Field, text: &str| draft.apply(&field, Some(text)).map_err(unplaced);
        if let Some(title) = row.text(&Role::Title) {
            set(Field::Title, &cut(&one_line(title), MAX_PREVIEW_TITLE, &mut notes.cut_previews))?;
        }
        if let Some(text) = row.text(&Role::Description) {
            set(Field::SocialDescription, &cut(text, MAX_PREVIEW_DESCRIPTION, &mut notes.cut_previews))?;
        }
        row.text(&Role::Image).map_or(Ok(()), |url| set(Field::ImageUrl, url))
    }

    /// The tags of a cell: those of a list may contain what separates the others.
    fn tags(&self, cell: &super::Cell<'_>) -> Vec<String> {
        let trimmed = |tag: &str| Some(tag.trim().to_owned()).filter(|tag| !tag.is_empty());
        if cell.items.is_empty() {
            return cell.text.split(self.profile.separators).filter_map(trimmed).collect();
        }
        cell.items.iter().filter_map(|tag| trimmed(tag)).collect()
    }
}

/// The text with one space for each run of whitespace.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text, truncated to at most `most` characters; counts in `cuts` whether it was.
fn cut(text: &str, most: usize, cuts: &mut u64) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    *cuts += 1;
    let cut: String = text.chars().take(most - 1).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_titles_are_cut_to_the_length_of_a_name() {
        let mut cuts = 0;
        let mut name = |title: &str| cut(&one_line(title), MAX_NAME, &mut cuts);
        assert_eq!(name(" Spring\n sale "), "Spring sale");
        assert_eq!(name(&"ä".repeat(MAX_NAME)), "ä".repeat(MAX_NAME));
        let long = name(&"ä".repeat(MAX_NAME + 1));
        assert!(long.chars().count() == MAX_NAME && long.ends_with('…'), "{long}");
        assert_eq!(cuts, 1);
    }
}
