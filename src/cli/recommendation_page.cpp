#include "cli/recommendation_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "sftbench/base/build_info.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/html_text.h"
#include "sftbench/base/quantity_text.h"

namespace sftbench {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1a1a1a; --quiet: #5c5c5c; --line: #d0d0d0; --card: #f5f6f8;
  --paper: #fff; --accent: #0b5fa5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --quiet: #a8a8a8; --line: #444;
  --card: #23262b; --paper: #16181b; --accent: #6db3f2; } }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.15rem; margin: 1.75rem 0 .5rem; }
.quiet { color: var(--quiet); }
.cards { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(16rem, 1fr)); }
.card { background: var(--card); border-radius: .5rem; padding: 1rem; break-inside: avoid; }
.card h2 { margin: 0; font-size: 1rem; color: var(--quiet); font-weight: 600; }
.card strong { display: block; font-size: 1.6rem; } .card p { margin: .25rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--quiet); font-weight: 600; } td.number, th.number { text-align: right; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; white-space: pre-line; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 13px; }
svg .axis { stroke: var(--line); } svg .tick { fill: var(--quiet); }
svg .front { fill: none; stroke: var(--accent); stroke-width: 2; } svg circle { fill: var(--accent); }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; } }
)";

std::string element(const std::string& name, const std::string& text) {
  return "<" + name + ">" + html_escaped(text) + "</" + name + ">";
}

std::string count_of_gpus(const Option& option) {
  return std::to_string(option.gpus) + " x " + option.gpu;
}

std::string interval_in_brackets(const Option& option) {
  const Json interval = hours_interval_text(option);
  return interval.is_string() ? " (" + interval.get<std::string>() + ")" : std::string();
}

std::string how_it_trains(const Option& option) {
  std::string text =
      std::to_string(option.batch_per_gpu) + " entries on a GPU, " +
      std::to_string(option.accumulation) +
      (option.accumulation == 1 ? " micro-batch a step, " : " micro-batches a step, ") +
      (option.checkpointing ? "with" : "without") + " gradient checkpointing";
  if (option.context_ranks > 1)
    text += ", rows divided among " + std::to_string(option.context_ranks) + " GPUs";
  return text;
}

std::string memory_and_risk(const Option& option) {
  char text[96];
  std::snprintf(text, sizeof text, "%.3g of %.3g GiB", option.needed_bytes / kGiB,
                option.memory_bytes / kGiB);
  std::string line = text;
  if (!option.memory_risk) return line;
  std::snprintf(text, sizeof text, ", dies with %.1f %%", 100 * *option.memory_risk);
  return line + text;
}

std::string card(const std::string& title, const std::string& figure, const Option& option,
                 const RecommendationView& view) {
  std::string card =
      "<section class=\"card\">" + element("h2", title) + element("strong", figure) +
      element("p", count_of_gpus(option) + ", " + hours_text(option) +
                       interval_in_brackets(option) + ", " + cost_text(option, view));
  if (const std::string energy = energy_text(option); !energy.empty())
    card += "<p class=\"quiet\">" + html_escaped(energy) + "</p>";
  card += "<p class=\"quiet\">" + html_escaped(how_it_trains(option)) + "</p>";
  return card + "<p class=\"quiet\">" + html_escaped(memory_and_risk(option)) + "</p></section>\n";
}

std::string cards(const RecommendationView& view) {
  const Recommendation& answer = view.answer;
  std::string text = "<div class=\"cards\">\n";
  if (answer.cheapest)
    text += card("Cheapest", cost_text(*answer.cheapest, view), *answer.cheapest, view);
  text += card("Fastest", hours_text(*answer.fastest), *answer.fastest, view);
  return text + "</div>\n";
}

// --- the chart: cost against hours, both on logarithmic scales ------------------------------------

constexpr double kWidth = 900, kHeight = 360, kLeft = 70, kRight = 190, kTop = 20, kBottom = 50;

class Axis {
 public:
  Axis(std::vector<double> values, double from, double to) : from_(from), to_(to) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    low_ = std::log(*low / 1.2);
    high_ = std::log(*high * 1.2);
  }

  double place(double value) const {
    return from_ + (to_ - from_) * (std::log(value) - low_) / (high_ - low_);
  }

  // 1, 2, 5, 10 and so on, as far as they lie on the axis.
  std::vector<double> ticks() const {
    std::vector<double> ticks;
    for (int decade = -6; decade <= 9; ++decade) {
      for (const double first : {1.0, 2.0, 5.0}) {
        const double tick = first * std::pow(10, decade);
        if (std::log(tick) >= low_ && std::log(tick) <= high_) ticks.push_back(tick);
      }
    }
    return ticks;
  }

 private:
  double from_, to_, low_, high_;
};

std::string at(const char* format, double x, double y) {
  char text[128];
  std::snprintf(text, sizeof text, format, x, y);
  return text;
}

std::string axes(const Axis& hours, const Axis& cost, const std::string& currency) {
  std::string svg;
  for (const double tick : hours.ticks()) {
    const double x = hours.place(tick);
    svg += at("<path class=\"axis\" d=\"M%.1f 20V%.1f\"/>", x, kHeight - kBottom);
    svg += at("<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">", x,
              kHeight - kBottom + 18) +
           cell_text(short_figure(tick)) + "</text>";
  }
  for (const double tick : cost.ticks()) {
    const double y = cost.place(tick);
    svg += at("<path class=\"axis\" d=\"M70 %.1fH%.1f\"/>", y, kWidth - kRight);
    svg += at("<text class=\"tick\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">", kLeft - 8, y + 4) +
           cell_text(short_figure(tick)) + "</text>";
  }
  svg += at("<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">hours</text>",
            (kLeft + kWidth - kRight) / 2, kHeight - 8);
  return svg + at("<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">", 4, 14) + html_escaped(currency) +
         "</text>\n";
}

std::string chart(const RecommendationView& view) {
  const std::vector<Option>& front = view.answer.front;
  if (front.size() < 2) return {};
  std::vector<double> all_hours, all_costs;
  for (const Option& option : front) {
    all_hours.push_back(option.hours);
    all_costs.push_back(*option.cost);
  }
  const Axis hours(all_hours, kLeft, kWidth - kRight);
  const Axis cost(all_costs, kHeight - kBottom, kTop);
  std::string line, points;
  for (const Option& option : front) {
    const double x = hours.place(option.hours), y = cost.place(*option.cost);
    line += (line.empty() ? "M" : "L") + at("%.1f %.1f", x, y);
    const std::string name = count_of_gpus(option);
    points += at("<circle r=\"5\" cx=\"%.1f\" cy=\"%.1f\">", x, y) +
              element("title", name + ": " + hours_text(option) + ", " + cost_text(option, view)) +
              "</circle>";
    points += at("<text x=\"%.1f\" y=\"%.1f\">", x + 7, y - 8) + html_escaped(name) + "</text>\n";
  }
  return "<h2>Cost against time</h2>\n<p class=\"quiet\">No other configuration is both faster and "
         "cheaper than one of these.</p>\n" +
         at("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"Cost against hours\">",
            kWidth, kHeight) +
         axes(hours, cost, view.prices.currency) + "<path class=\"front\" d=\"" + line + "\"/>\n" +
         points + "</svg>\n";
}

// --- the rest ------------------------------------------------------------------------------------

std::string as_html(const Table& table) {
  std::string html =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"Choices\"><table><thead><tr>";
  const auto is_number = [&](size_t column) {
    return std::any_of(table.rows.begin(), table.rows.end(),
                       [column](const auto& row) { return row[column].is_number(); });
  };
  const auto open = [&](const std::string& name, size_t column) {
    return "<" + name + (is_number(column) ? " class=\"number\">" : ">");
  };
  for (size_t column = 0; column < table.columns.size(); ++column) {
    std::string title = table.columns[column];
    std::replace(title.begin(), title.end(), '_', ' ');
    html += open("th", column) + html_escaped(title) + "</th>";
  }
  html += "</tr></thead><tbody>\n";
  for (const std::vector<Json>& row : table.rows) {
    html += "<tr>";
    for (size_t column = 0; column < row.size(); ++column)
      html += open("td", column) + html_escaped(cell_text(row[column])) + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string as_html(const Definitions& definitions) {
  std::string html = "<dl>\n";
  for (const auto& [term, text] : definitions)
    html += element("dt", term) + element("dd", text) + "\n";
  return html + "</dl>\n";
}

std::string question_text(const RecommendationView& view) {
  const Question& question = view.question;
  std::string text = std::to_string(question.workload.entries) + " entries, " +
                     quantity_text(view.tokens()) + " tokens in all, " +
                     std::to_string(question.batch) + " entries a step";
  const auto limit = [&](const std::string& words) { text += ", " + words; };
  if (question.deadline_s)
    limit("within " + cell_text(short_figure(*question.deadline_s / 3600)) + " h");
  if (question.budget)
    limit("for " + cell_text(short_figure(*question.budget)) + " " + view.prices.currency +
          " at most");
  if (question.most_risk)
    limit("at most " + cell_text(short_figure(100 * *question.most_risk)) +
          " % to run out of memory");
  return text + ".";
}

}  // namespace

std::string page_of(const RecommendationView& view) {
  const std::string title =
      "GPUs for " + view.question.model + ", " + name_of(view.question.experiment->tuning);
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
         "'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n" +
         element("title", title) + "\n<style>" + kStyle + "</style>\n</head>\n<body>\n" +
         element("h1", title) + "\n" + element("p", question_text(view)) +
         "\n<p class=\"quiet\">All is predicted, nothing is measured. Nine of ten runs are "
         "expected "
         "within the hours in brackets.</p>\n" +
         cards(view) + chart(view) + "<h2>Choices</h2>\n" + as_html(table_of(view)) +
         "<h2>Why</h2>\n" + as_html(reasons_of(view)) + "<p class=\"quiet\">" +
         html_escaped("sftbench " + version_and_commit() + ", " + utc_now_iso8601() +
                      ", prices of " + view.prices.file) +
         "</p>\n</body>\n</html>\n";
}

}  // namespace sftbench
