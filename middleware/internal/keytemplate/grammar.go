package keytemplate

// Extract reads the value of one placeholder from a source. "" means that there is
// none; an error is best made by Invalid or Unfit. It is called from many goroutines.
type Extract[S any] func(src S) (string, error)

// Bind makes the Extract of a placeholder's name, or says what is wrong with the name.
type Bind[S any] func(name string) (Extract[S], error)

// Grammar is the set of placeholders that an adapter knows.
type Grammar[S any] struct {
	Words map[string]Extract[S] // {word}
	Kinds map[string]Bind[S]    // {kind:name}
	Bare  Bind[S]               // {name}, for every name that is not a word
}
