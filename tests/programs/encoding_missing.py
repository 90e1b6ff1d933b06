print("fine")
name = "é"
