print("before")
import broken_syntax
