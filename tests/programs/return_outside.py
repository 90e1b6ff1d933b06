x = "\d is kept with a warning"
return x
