package conf

import "strings"

// suggest returns the candidate that word is most likely a misspelling of, or
// "". Case, "-" for "_" and up to two slips (a third of a short word) are
// forgiven.
func suggest(word string, candidates []string) string {
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	folded := fold(word)
	best, bestDistance := "", min(2, (len(word)+1)/3)+1
	for _, c := range candidates {
		if max(len(c)-len(word), len(word)-len(c)) >= bestDistance {
			continue // of a wrong file, every line is compared with every key
		}
		if d := distance(folded, fold(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// didYouMean returns `; did you mean "x"?` or nothing.
func didYouMean(word string, candidates []string) string {
	if s := suggest(word, candidates); s != "" {
		return `; did you mean "` + s + `"?`
	}
	return ""
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64 // a slip of the fingers does not matter any more
	}
	previous, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], previous[j-1]+1)
			}
		}
		previous, row, next = row, next, previous
	}
	return row[len(b)]
}
