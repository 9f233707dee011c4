-- What any script costs: the call itself.
return 1
