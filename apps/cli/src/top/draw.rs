//! Puts what is seen on a screen, or into text.

use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table, TableState};

use super::view::{Bar, Mood, NodeRow, Page, Pane, View, WorkloadRow};

/// Letters of a bar, at most.
const BAR: u16 = 12;
/// Columns of the numbers beside a bar.
const NUMBERS: u16 = 13;
/// Columns of a list of nodes that are no bars.
const BESIDE_BARS: u16 = 54;
/// A title, its line and a row.
const LEAST_LIST: u16 = 4;
/// The widest picture that is drawn, and the highest: text for a pipe.
const WIDEST: u16 = 400;
const HIGHEST: u16 = 10_000;

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let area = frame.area();
    let [top, alarms, nodes, workloads, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(length(view.alarms.len())),
        Constraint::Length(nodes_height(view, area.height)),
        Constraint::Min(LEAST_LIST),
        Constraint::Length(1),
    ])
    .areas(area);
    let title = Span::styled(view.title.0.as_str(), mood(view, view.title.1));
    let counts = Line::from(view.counts.as_str());
    frame.render_widget(Paragraph::new(vec![Line::from(title), counts]), top);
    let bad = mood(view, Mood::Bad);
    let said = view.alarms.iter().map(|alarm| Line::styled(format!("! {alarm}"), bad));
    frame.render_widget(Paragraph::new(said.collect::<Vec<_>>()), alarms);
    draw_nodes(frame, view, nodes);
    draw_workloads(frame, view, workloads);
    frame.render_widget(Paragraph::new(view.keys.as_str()).style(mood(view, Mood::Quiet)), keys);
    if let Some(page) = &view.page {
        draw_page(frame, page, area);
    }
}

/// Half of the screen at most: what runs is looked at more often than where.
fn nodes_height(view: &View, all: u16) -> u16 {
    let wanted = length(view.nodes.rows.len()).saturating_add(3).max(LEAST_LIST);
    wanted.min((all / 2).max(LEAST_LIST))
}

fn length(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

fn mood(view: &View, mood: Mood) -> Style {
    let style = Style::default();
    if !view.color {
        return style;
    }
    match mood {
        Mood::Plain => style,
        Mood::Good => style.fg(Color::Green),
        Mood::Moving => style.fg(Color::Yellow),
        Mood::Bad => style.fg(Color::Red),
        Mood::Quiet => style.fg(Color::DarkGray),
    }
}

fn draw_nodes(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let bar = (area.width.saturating_sub(BESIDE_BARS) / 3).saturating_sub(NUMBERS).min(BAR);
    let wide = bar.saturating_add(NUMBERS);
    let row = |node: &NodeRow| {
        let disk = node.disk.as_ref().map_or_else(|| "-".to_owned(), |disk| share(disk, bar));
        Row::new(vec![
            Cell::from(node.id.clone()),
            Cell::from(node.state.0.clone()).style(mood(view, node.state.1)),
            Cell::from(node.workloads.clone()),
            Cell::from(share(&node.cpu, bar)),
            Cell::from(share(&node.memory, bar)),
            Cell::from(disk),
            Cell::from(node.lease.clone()),
        ])
    };
    let header = ["NODE", "STATE", "RUNS", "CPU", "MEMORY", "DISK", "LEASE"];
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(16),
        Constraint::Length(4),
        Constraint::Length(wide),
        Constraint::Length(wide),
        Constraint::Length(wide),
        Constraint::Length(5),
    ];
    draw_list(frame, view, &view.nodes, (&header, &widths, &row), area);
}

fn draw_workloads(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let row = |one: &WorkloadRow| {
        Row::new(vec![
            Cell::from(one.id.clone()),
            Cell::from(one.kind.clone()),
            Cell::from(one.state.0.clone()).style(mood(view, one.state.1)),
            Cell::from(one.node.clone()),
            Cell::from(one.cpu.clone()),
            Cell::from(one.memory.clone()),
            Cell::from(one.age.clone()),
            Cell::from(one.why.clone()),
        ])
    };
    let header = ["WORKLOAD", "TYPE", "STATE", "NODE", "CPU", "MEMORY", "AGE", "WHY"];
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(9),
        Constraint::Length(21),
        Constraint::Fill(1),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(4),
        Constraint::Fill(3),
    ];
    draw_list(frame, view, &view.workloads, (&header, &widths, &row), area);
}

type Shape<'a, R> = (&'a [&'static str], &'a [Constraint], &'a dyn Fn(&R) -> Row<'static>);

fn draw_list<R>(
    frame: &mut Frame<'_>,
    view: &View,
    pane: &Pane<R>,
    (header, widths, row): Shape<'_, R>,
    area: Rect,
) {
    let border = if pane.focused { Style::default() } else { mood(view, Mood::Quiet) };
    let block =
        Block::new().borders(Borders::TOP).border_style(border).title(format!(" {} ", pane.title));
    if pane.rows.is_empty() {
        return frame.render_widget(Paragraph::new(pane.empty.as_str()).block(block), area);
    }
    let chosen = if pane.focused { Modifier::REVERSED } else { Modifier::empty() };
    let table = Table::new(pane.rows.iter().map(row), widths.iter().copied())
        .header(Row::new(header.to_vec()).style(mood(view, Mood::Quiet)))
        .row_highlight_style(Style::default().add_modifier(chosen))
        .block(block);
    // What is chosen is in sight, whatever was before.
    let mut state = TableState::new().with_selected(pane.chosen);
    frame.render_stateful_widget(table, area, &mut state);
}

/// A bar and its numbers.
fn share(bar: &Bar, cells: u16) -> String {
    let drawn: String = (0..cells)
        .map(|cell| {
            let at = (f64::from(cell) + 0.5) / f64::from(cells);
            if bar.used.is_some_and(|used| at < used) {
                '█'
            } else if at < bar.reserved {
                '▒'
            } else {
                '·'
            }
        })
        .collect();
    format!("{drawn}{}{}", if cells > 0 { " " } else { "" }, bar.text)
}

fn draw_page(frame: &mut Frame<'_>, page: &Page, all: Rect) {
    let width = all.width.saturating_sub(8).clamp(1, 110).min(all.width);
    let height =
        length(page.lines.len()).saturating_add(2).min(all.height.saturating_sub(2)).max(3);
    let area = Rect {
        x: all.x.saturating_add(all.width.saturating_sub(width) / 2),
        y: all.y.saturating_add(all.height.saturating_sub(height) / 2),
        width,
        height: height.min(all.height),
    };
    let lines: Vec<Line<'_>> = page.lines.iter().map(|line| Line::from(line.as_str())).collect();
    let block = Block::bordered().title(format!(" {} ", page.title));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(block).scroll((page.from, 0)), area);
}

/// The same as text, high enough for all of it; without the keys, which nobody can press there.
pub(super) fn text(view: &View, columns: u16) -> String {
    let (nodes, workloads) = (view.nodes.rows.len(), view.workloads.rows.len());
    // The list of nodes gets half of a screen at most.
    let wanted = nodes.saturating_add(view.alarms.len()).saturating_add(nodes.max(workloads));
    let height = length(wanted.saturating_add(16)).min(HIGHEST);
    let Ok(mut terminal) = Terminal::new(TestBackend::new(columns.clamp(40, WIDEST), height));
    let Ok(_drawn) = terminal.draw(|frame| draw(frame, view));
    let mut lines = lines(terminal.backend().buffer());
    lines.pop();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    if wanted >= usize::from(HIGHEST) {
        lines.push("and more: `persys nodes` and `persys list` show all".to_owned());
    }
    lines.join("\n") + "\n"
}

/// The lines of a picture, without what is empty at their end.
pub(super) fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area().width).max(1);
    let line = |cells: &[ratatui::buffer::Cell]| {
        cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned()
    };
    buffer.content().chunks(width).map(line).collect()
}
