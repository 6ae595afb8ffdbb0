"""The cache of watched objects, in client-go's words: reflector, store, informer."""
