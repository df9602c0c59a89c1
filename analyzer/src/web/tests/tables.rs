//! Long tables: filtered, in the order of a column, a part at a time.

use super::*;
use crate::web::chosen::{Chosen, PeriodQuery};
use crate::web::kept::Kept;
use crate::web::part::PartQuery;
use crate::web::sorted::Key;
use crate::web::table::{On, Table};
use jiff::tz::TimeZone;

/// The rows of the table under the heading, each as its text.
fn rows(page: &str, heading: &str) -> Vec<String> {
    let (_, rest) = page.split_once(&format!("<h2>{heading}</h2>")).unwrap_or_else(|| panic!("no {heading} in {page}"));
    let body = rest.split_once("<tbody>").map_or("", |(_, body)| body.split("</tbody>").next().unwrap());
    body.split("<tr").skip(1).map(|row| text_of(&format!("<tr{row}"))).collect()
}

/// The first words of the rows.
async fn order(served: &Served, path: &str, heading: &str) -> Vec<String> {
    let rows = rows(&page(served, path).await, heading);
    rows.iter().map(|row| row.split(' ').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_head_of_a_table_leads_to_the_order_of_its_column_and_says_it() {
    let served = with_a_starving_gpu().await;
    let nodes = async |sort: &str| order(&served, &format!("/?period=24h{sort}"), "Nodes by loss").await;
    // The idle node lost two hours, the other three quarters of one, and a quarter of its hour was productive.
    let (idle, starving) = ("&#60;b&#62;n/50%", "n2");
    assert_eq!(nodes("").await, [idle, starving]);
    for (sort, expected) in [
        ("loss", [idle, starving]),
        ("-loss", [starving, idle]),
        ("goodput", [starving, idle]),
        ("-node", [starving, idle]),
    ] {
        assert_eq!(nodes(&format!("&sort={sort}")).await, expected, "{sort}");
    }
    let shown = page(&served, "/?period=24h&sort=goodput").await;
    let (_, nodes) = shown.split_once("<h2>Nodes by loss</h2>").unwrap();
    let nodes = nodes.split("</section>").next().unwrap();
    assert_eq!(nodes.matches("aria-sort=\"descending\"").count(), 1, "{nodes}");
    let all = links(&shown);
    assert!(
        all.contains(&"/?period=24h&sort=-goodput".to_owned()) && all.contains(&"/?period=24h&sort=node".to_owned())
    );
    assert!(all.contains(&"/?period=7d&sort=goodput".to_owned()), "another period keeps the order: {all:?}");
    let (status, _, wrong) = served.get("/runs?sort=colour").await;
    let expected = "sort: &#34;colour&#34;: expected one of loss, run, gpus, held, productive; with - before it";
    assert!(status == 400 && wrong.contains(expected), "{wrong}");
    let runs = order(&served, "/runs?sort=-held", "Who held GPUs").await;
    assert_eq!(runs.len(), 1, "who held the idle GPU is not known: {runs:?}");
}

#[tokio::test]
async fn findings_runs_and_nodes_are_filtered_by_parts_of_names() {
    let served = with_a_starving_gpu().await;
    for (path, heading, expected) in [
        ("/findings?period=24h", "What was lost", 2),
        ("/findings?period=24h&class=STORAGE", "What was lost", 1),
        ("/findings?period=24h&class=held+without", "What was lost", 1),
        ("/findings?period=24h&run=mpijob&node=&class=", "What was lost", 1),
        ("/findings?period=24h&node=n2", "What was lost", 1),
        ("/findings?period=24h&node=n2&class=idle", "What was lost", 0),
        ("/runs?run=MPI", "Who held GPUs", 1),
        ("/runs?run=other", "Who held GPUs", 0),
        ("/?node=n2", "Nodes by loss", 1),
        ("/?node=n9", "Nodes by loss", 0),
    ] {
        assert_eq!(rows(&page(&served, path).await, heading).len(), expected, "{path}");
    }
    let shown = page(&served, "/findings?period=24h&class=storage&sort=finding").await;
    assert!(shown.contains("<input name=\"class\" value=\"storage\""), "{shown}");
    assert!(shown.contains("<input type=\"hidden\" name=\"sort\" value=\"finding\">"), "{shown}");
    assert!(text_of(&shown).contains("The whole table as CSV JSON"), "the API has no such filter: {shown}");
    let all = links(&shown);
    assert!(all.contains(&"/findings?period=24h&sort=finding".to_owned()), "all rows: {all:?}");
    assert!(all.contains(&"/findings?period=24h&class=storage&sort=-finding".to_owned()), "{all:?}");
    let few = page(&served, "/findings?period=24h").await;
    assert!(!few.contains("class=\"filter\"") && text_of(&few).contains("This table as CSV JSON"), "{few}");
}

#[test]
fn parts_of_a_table_keep_its_period_filter_and_order() {
    let chosen = Chosen::of(&PeriodQuery::week("2026-W47"), START, &TimeZone::UTC).unwrap();
    let asked = PartQuery::of("2", "-lost");
    let mut rows: Vec<i64> = (0..250).rev().collect();
    let run = Some("a&b".to_owned());
    let on = On { path: "/runs", chosen: &chosen, fields: [("run", "run", &run)], others: Kept::default() };
    let table = Table::of(on, &asked, &mut rows, &["lost"], |row, _| Key::number(*row)).map_err(|p| p.what).unwrap();
    assert_eq!(rows[table.part.rows.clone()][..2], [100, 101], "from the least on");
    assert_eq!(table.part.links[1].href, "/runs?period=2026-W47&run=a%26b&sort=-lost&page=3");
    assert_eq!(table.kept.query(), "&run=a%26b&sort=-lost");
    assert!(table.filter.is_shown && table.filter.all.as_deref() == Some("/runs?period=2026-W47&sort=-lost"));
}

#[tokio::test]
async fn a_class_has_its_letter_in_bars_from_three_percent_on() {
    let served = with_a_starving_gpu().await;
    let hour = START..START + HOUR_MS;
    let mut all = served.store.intervals(hour.clone()).await.unwrap();
    all.retain(|i| i.node == "n2");
    let little = Interval { class: Class::Checkpoint, ms: HOUR_MS / 40, ..all[0].clone() };
    all.push(little);
    served.store.replace(STARVING_NODE, hour, &all).await.unwrap();
    let node = page(&served, "/runs?period=24h").await;
    for (class, letter) in [(Class::DataloaderStorage, "S"), (Class::Productive, "P")] {
        assert_eq!(class.info().key, letter);
        let name = class.name();
        assert!(
            node.contains(&format!("<rect class=\"c-{name}\"")) && node.contains(&format!("<text class=\"k-{name}\""))
        );
        assert!(node.contains(&format!(">{letter}</text>")), "{node}");
    }
    assert!(
        node.contains("<rect class=\"c-checkpoint\"") && !node.contains("<text class=\"k-checkpoint\""),
        "2.4 %: {node}"
    );
}
