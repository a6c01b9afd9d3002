package cohort

// Subscribe opens the subscription, as the first hold does.
func (t *Table) Subscribe() { t.notifier.begin() }
