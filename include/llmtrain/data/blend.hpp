#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/core/result.hpp"

// Which source gives draw g of a weighted blend, in closed form for any g.
//
// Sources are the leaves of a binary tree; at each node the side that is furthest behind its share
// gets the draw, which for two sides is a rounded product. So the first g draws hold each source's
// share to within two draws (one, for two sources), nothing is stored, and any cursor costs the same.
// A source that reaches its cap leaves; the rest go on with their weights. docs/DATA.md has the rule.
namespace llmtrain {

struct BlendEntry {
  std::string name;                   // for messages
  double weight = 1.0;                // > 0; only ratios matter
  std::optional<std::int64_t> limit;  // most draws; absent: unbounded
};

class Blend {
 public:
  struct Draw {
    int source = 0;
    std::int64_t index = 0;  // how many draws of this source came before
  };

  static Result<Blend> make(std::vector<BlendEntry> entries);

  // Draws until every source is exhausted; absent when some source is unbounded.
  std::optional<std::int64_t> size() const { return size_; }
  // `draw` must be below size().
  Draw at(std::int64_t draw) const;
  // How many of the first `draws` draws come from `source`.
  std::int64_t count(std::int64_t draws, int source) const;

 private:
  struct Node {
    int left = -1;  // children, or -1 for a leaf
    int right = -1;
    int source = -1;  // of a leaf
    double weight = 0;
    std::uint64_t share = 0;  // of the right child, in units of 2^-62
  };
  // A stretch of draws with one set of live sources.
  struct Phase {
    std::int64_t begin = 0;
    std::vector<std::int64_t> base;  // draws per source before `begin`
    std::vector<Node> nodes;         // the root is last
  };

  static std::vector<Node> make_tree(const std::vector<BlendEntry>& entries, const std::vector<int>& live);
  static std::int64_t count_right(const Node& node, std::int64_t n);
  static void count_all(const Phase& phase, int node, std::int64_t n, std::vector<std::int64_t>& counts);
  static std::int64_t exhausted_after(const std::vector<BlendEntry>& entries, const Phase& phase);
  const Phase& phase_of(std::int64_t draw) const;

  std::vector<Phase> phases_;
  std::optional<std::int64_t> size_;
};

}  // namespace llmtrain
