package guardweb

// Words are what the page says of an error.
func Words(err error) string { return words(err) }
