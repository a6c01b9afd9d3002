// Package explore searches every state of a model, breadth first, and says by which way one comes
// about that must not be. Only tests of protocols use it.
package explore
