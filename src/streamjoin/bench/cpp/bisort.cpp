// BI-Sort (PanJoin, sections III-D and III-E) in batch mode: the baseline for streamjoin's own, in plain C++17.
//
//   word = (uint32(key) ^ 0x80000000) << 32 | place       key int32, place < 2^31
//
// The order of words is the order of keys, and of places among equal keys. Single thread, no intrinsics.
//
// Build:  g++ -O3 -march=native -std=c++17 -shared -fPIC bisort.cpp -o libbisort.so
//
// The steps, over memory of the caller's:
//   bisort_sort   LSD radix sort of a batch: 3 passes of 11 bits
//   bisort_merge  the sorted batch and the sorted main array become another sorted array, with its index:
//                 the key of every PARTITION-th word
//   bisort_probe  ranges in the order of their low keys: walk the index, search the partition, write the matches
//
// Room: `main` and `out` hold n + m + PAD words, the index ceil((n + m) / PARTITION) + PAD keys. What lies behind
// the last word and the last key is filled with ones, so that no loop needs a test for the end.
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {
constexpr int64_t PARTITION = 16, PAD = 64;
constexpr int DIGIT = 11, BUCKETS = 1 << DIGIT;
constexpr int64_t AHEAD = 64;  // ranges whose partitions are fetched before the first of them is searched

inline uint32_t biased(int32_t key) { return uint32_t(key) ^ 0x80000000u; }
inline uint32_t key_of(uint64_t word) { return uint32_t(word >> 32); }

void scatter(const uint64_t *from, uint64_t *to, int64_t n, int shift, uint32_t *next) {
    for (int64_t i = 0; i < n; ++i) to[next[(from[i] >> shift) & (BUCKETS - 1)]++] = from[i];
}

// Counts become starts; true if all are in one bucket, so that the pass would change nothing.
bool starts(uint32_t *count, int64_t n) {
    uint32_t sum = 0;
    for (int b = 0; b < BUCKETS; ++b) {
        const uint32_t c = count[b];
        if (int64_t(c) == n) return true;
        count[b] = sum;
        sum += c;
    }
    return false;
}

// Words of keys[i] with place first + i, in ascending order, in `words`; `scratch` holds n words as well.
void sort_words(const int32_t *keys, int64_t n, int64_t first, uint64_t *words, uint64_t *scratch) {
    uint32_t count[3][BUCKETS];
    std::memset(count, 0, sizeof count);
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t k = biased(keys[i]);
        ++count[0][k & (BUCKETS - 1)];
        ++count[1][(k >> DIGIT) & (BUCKETS - 1)];
        ++count[2][k >> (2 * DIGIT)];
    }
    uint64_t *from = words, *to = scratch;
    if (starts(count[0], n)) {
        for (int64_t i = 0; i < n; ++i) from[i] = uint64_t(biased(keys[i])) << 32 | uint64_t(first + i);
    } else {
        for (int64_t i = 0; i < n; ++i) {
            const uint32_t k = biased(keys[i]);
            from[count[0][k & (BUCKETS - 1)]++] = uint64_t(k) << 32 | uint64_t(first + i);
        }
    }
    for (int pass = 1; pass < 3; ++pass) {
        if (starts(count[pass], n)) continue;
        scatter(from, to, n, 32 + pass * DIGIT, count[pass]);
        std::swap(from, to);
    }
    if (from != words) std::memcpy(words, from, size_t(n) * sizeof *words);
}

// Blocks of the main array that lie below the next word of the batch are copied whole. Of the block it falls into, the
// words behind it are written once more, one further.
int64_t merge(const uint64_t *__restrict main, int64_t n, const uint64_t *__restrict batch, int64_t m,
              uint64_t *__restrict out, uint32_t *__restrict index) {
    constexpr int64_t BLOCK = 8, CHUNK = 64;
    int64_t i = 0, j = 0, indexed = 0, p = 0;
    while (j < m) {
        for (const int64_t stop = std::min(m, j + CHUNK); j < stop; ++j) {
            const uint64_t word = batch[j];
            for (; main[i + BLOCK - 1] < word; i += BLOCK)
                for (int64_t b = 0; b < BLOCK; ++b) out[i + j + b] = main[i + b];
            int64_t below = 0;
            for (int64_t b = 0; b < BLOCK; ++b) out[i + j + b] = main[i + b];
            for (int64_t b = 0; b < BLOCK; ++b) below += main[i + b] < word;
            i += below;
            out[i + j] = word;
        }
        for (; indexed < i + j; indexed += PARTITION) index[p++] = key_of(out[indexed]);  // while it is in the cache
    }
    std::memcpy(out + i + m, main + i, size_t(n - i) * sizeof *out);
    for (; indexed < n + m; indexed += PARTITION) index[p++] = key_of(out[indexed]);
    std::fill(out + n + m, out + n + m + PAD, ~uint64_t(0));
    std::fill(index + p, index + p + PAD, ~uint32_t(0));
    return p;
}

// The first place at or after p whose key is not below `key`: steps that double, then halve, then one block.
inline int64_t rebound(const uint32_t *index, int64_t size, int64_t p, uint32_t key) {
    constexpr int64_t BLOCK = 16;
    if (index[p + BLOCK - 1] < key) {  // the padding stops it: it is as high as a key can be
        int64_t low = p + BLOCK - 1, step = BLOCK;
        while (low + step < size && index[low + step] < key) low += step, step *= 2;
        int64_t high = std::min(low + step, size);  // index[low] < key, and what is at high or behind is not
        while (high - low > BLOCK) {
            const int64_t middle = (low + high) / 2;
            const bool below = index[middle] < key;
            low = below ? middle : low;
            high = below ? high : middle;
        }
        p = low;
    }
    uint32_t below = 0;
    for (int64_t b = 0; b < BLOCK; ++b) below += index[p + b] < key;
    return p + below;
}
}  // namespace

extern "C" {
int64_t bisort_partition() { return PARTITION; }
int64_t bisort_pad() { return PAD; }

void bisort_sort(const int32_t *keys, int64_t n, int64_t first, uint64_t *words, uint64_t *scratch) {
    sort_words(keys, n, first, words, scratch);
}

// Returns the size of the index.
int64_t bisort_merge(const uint64_t *main, int64_t n, const uint64_t *batch, int64_t m, uint64_t *out,
                     uint32_t *index) {
    return merge(main, n, batch, m, out, index);
}

// `ranges` are the words of the low keys with the ranges' numbers as places, in ascending order; high is by number.
// Writes (number, place of the word) for each word from low to high, until less than BLOCK pairs would fit,
// and returns how many. state: the next range, its position in the main array (-1: not looked for), and the
// position in the index; {0, -1, 0} at first. It is through when state[0] == m.
int64_t bisort_probe(const uint64_t *main, const uint32_t *index, int64_t size, const uint64_t *ranges, int64_t m,
                     const int32_t *high, int32_t *__restrict out_range, int32_t *__restrict out_place,
                     int64_t capacity, int64_t *state) {
    constexpr int64_t BLOCK = 8;
    int64_t t = state[0], resume = state[1], p = state[2], k = 0;
    int64_t partition[AHEAD];
    bool full = size == 0;
    if (full) t = m;
    while (t < m && !full) {
        const int64_t tile = std::min(AHEAD, m - t);
        int64_t ahead = p;
        for (int64_t i = 0; i < tile; ++i) {
            ahead = rebound(index, size, ahead, key_of(ranges[t + i]));
            partition[i] = ahead;
            const int64_t start = std::max<int64_t>(ahead - 1, 0) * PARTITION;
            __builtin_prefetch(main + start);
            __builtin_prefetch(main + start + PARTITION / 2);
        }
        for (int64_t i = 0; i < tile; ++i) {
            const uint64_t low = ranges[t] & ~uint64_t(0xffffffffu);
            const int32_t number = int32_t(uint32_t(ranges[t]));
            const uint64_t last = uint64_t(biased(high[number])) << 32 | 0x7fffffffu;  // not the padding
            int64_t at = resume;
            resume = -1;
            if (at < 0) {
                at = std::max<int64_t>(partition[i] - 1, 0) * PARTITION;
                int64_t below = 0;
                for (int64_t b = 0; b < PARTITION; ++b) below += main[at + b] < low;
                at += below;
            }
            int64_t hits = BLOCK;
            while (hits == BLOCK && k + BLOCK <= capacity) {  // write a block, keep as much of it as is in the range
                hits = 0;
                for (int64_t b = 0; b < BLOCK; ++b) hits += main[at + b] <= last;
                for (int64_t b = 0; b < BLOCK; ++b) out_place[k + b] = int32_t(uint32_t(main[at + b]));
                for (int64_t b = 0; b < BLOCK; ++b) out_range[k + b] = number;
                k += hits;
                at += hits;
            }
            if (hits == BLOCK) {  // no room left: this range goes on at `at`
                resume = at;
                full = true;
                break;
            }
            p = partition[i];
            ++t;
        }
    }
    state[0] = t, state[1] = resume, state[2] = p;
    return k;
}
}
